import { PasswordField } from '../../ui/field.tsx';
import { Icon } from '../../ui/icons.tsx';

/** The password rule of service.md (Invitation flow), for accents in one piece with their letters. */
const rules: readonly { text: string; met: (password: string) => boolean }[] = [
  { text: 'At least 8 characters', met: (password) => [...password].length >= 8 },
  { text: 'An upper-case letter', met: (password) => /\p{Lu}/u.test(password) },
  { text: 'A lower-case letter', met: (password) => /\p{Ll}/u.test(password) },
  { text: 'A digit', met: (password) => /\p{Nd}/u.test(password) },
  { text: 'A special character', met: (password) => /[^\p{L}\p{N}\s]/u.test(password) },
];

export const passwordMeetsRules = (typed: string): boolean => {
  const password = typed.normalize('NFC');
  return rules.every(({ met }) => met(password));
};

type NewPasswordProps = {
  label?: string;
  value: string;
  onChange: (value: string) => void;
  error: string | null;
  autoFocus?: boolean;
};

/** A password to be set, with the rules for it. */
export function NewPassword({ label = 'New password', ...rest }: NewPasswordProps) {
  return (
    <>
      <PasswordField {...rest} label={label} autoComplete="new-password" required />
      <PasswordRules password={rest.value} />
    </>
  );
}

/** The password rules, each ticked once it is met. */
function PasswordRules({ password: typed }: { password: string }) {
  const password = typed.normalize('NFC');
  return (
    <ul aria-label="Password rules" className="grid min-[17rem]:grid-cols-2 gap-x-4 gap-y-1 text-sm">
      {rules.map(({ text, met }) => (
        <li
          key={text}
          data-met={met(password)}
          className={met(password) ? 'flex items-center gap-1.5 text-good' : 'flex items-center gap-1.5 text-faint'}
        >
          {met(password) ? (
            <Icon name="check" className="size-3.5" />
          ) : (
            <span className="mark mx-1 size-1.5 shrink-0 rounded-full bg-edge" />
          )}
          {text}
          <span className="sr-only">{met(password) ? ' (met)' : ' (not met yet)'}</span>
        </li>
      ))}
    </ul>
  );
}
