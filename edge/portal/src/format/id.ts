/** Whether an id is one of the gateway's own, a UUID as it writes them. */
export const isUuid = (id: string): boolean => /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(id);
