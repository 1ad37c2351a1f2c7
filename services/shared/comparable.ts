/** A text as it is searched for: in any case, and with its accents in one piece with their letters or apart. */
export const comparable = (text: string): string => text.normalize().toLowerCase();
