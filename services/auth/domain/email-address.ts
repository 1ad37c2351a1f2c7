/** The one spelling under which an address is stored and looked up: no spaces around it, lower case, composed characters. */
export const normalEmail = (email: string): string => email.trim().normalize('NFC').toLowerCase();
