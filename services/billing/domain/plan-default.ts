/** The plan of organizations that nobody put on another one: it comes with the first migration, and operators may change it. */
export const defaultPlanCode = 'developer';
