import { Type } from 'typebox';

/** The length that a password field accepts; Auth hashes nothing longer. */
export const passwordSchema = Type.String({ minLength: 1, maxLength: 1024 });

/** A new password. */
export const newPasswordSchema = Type.String({
  ...passwordSchema,
  description:
    'At least 8 characters, including an upper-case letter, a lower-case letter, a digit and a special character.',
});
