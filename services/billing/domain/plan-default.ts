/** The plan of organizations which nobody put on another: it stands in the first migration, and operators may change it. */
export const defaultPlanCode = 'developer';
