/** The spelling in which an address is stored and looked up: trimmed, lower case, composed characters. */
export const normalEmail = (email: string): string => email.trim().normalize('NFC').toLowerCase();
