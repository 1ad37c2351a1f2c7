import type { AnchorHTMLAttributes, ButtonHTMLAttributes, MouseEvent, Ref } from 'react';
import { Link } from '../router/link.tsx';
import { classNames } from './class-names.ts';
import { Icon, type IconName } from './icons.tsx';

type Look = 'primary' | 'secondary' | 'quiet' | 'danger';

// A transparent border becomes visible in forced-colours mode, which removes the background.
const looks: Readonly<Record<Look, string>> = {
  primary: 'border border-transparent bg-fill text-on-fill hover:opacity-88',
  secondary: 'bg-surface text-ink border border-line hover:bg-sunken',
  quiet: 'text-soft hover:bg-sunken hover:text-ink',
  danger: 'border border-transparent bg-danger-fill text-white hover:opacity-88',
};

const shape =
  'inline-flex items-center justify-center gap-1.5 rounded-md font-medium whitespace-nowrap transition-[opacity,background-color] select-none aria-disabled:opacity-50 max-[17rem]:px-2';
const sizes = { small: 'h-7 px-2.5 text-sm', medium: 'h-8.5 px-3.5 text-sm', large: 'h-10 px-4 text-base' } as const;

type BareButtonProps = ButtonHTMLAttributes<HTMLButtonElement> & { ref?: Ref<HTMLButtonElement> };

/**
 * A disabled button keeps the focus, which the `disabled` attribute would take away: many buttons disable themselves when pressed, and the
 * user would lose their place in the page.
 */
function BareButton({ disabled = false, onClick, ...rest }: BareButtonProps) {
  const unlessOff = (event: MouseEvent<HTMLButtonElement>) => {
    if (disabled) event.preventDefault();
    else onClick?.(event);
  };
  return <button type="button" {...rest} onClick={unlessOff} aria-disabled={disabled || undefined} />;
}

export type ButtonProps = BareButtonProps & {
  look?: Look;
  size?: keyof typeof sizes;
  icon?: IconName;
  /** Shows that the action is in progress, and ignores further clicks. */
  pending?: boolean;
};

/**
 * Ignores the second click of a double click, which would hit whatever the first one put in its place, such as Stop instead of Send. Each
 * label has an element of its own: a browser that translates the page puts its own text in place of the label, where a new one would never
 * be seen.
 */
export function Button({
  look = 'secondary',
  size = 'medium',
  icon,
  pending = false,
  className,
  children,
  onClick,
  ...rest
}: ButtonProps) {
  const once = (event: MouseEvent<HTMLButtonElement>) => {
    if (event.detail > 1) event.preventDefault();
    else onClick?.(event);
  };
  return (
    <BareButton
      {...rest}
      onClick={once}
      disabled={rest.disabled || pending}
      aria-busy={pending || undefined}
      className={classNames(shape, sizes[size], looks[look], className)}
    >
      {icon !== undefined && <Icon name={icon} />}
      {typeof children === 'string' ? <span key={children}>{children}</span> : children}
      {pending && <span className="animate-pulse-soft">…</span>}
    </BareButton>
  );
}

type ButtonLinkProps = AnchorHTMLAttributes<HTMLAnchorElement> & {
  href: string;
  look?: Look;
  size?: keyof typeof sizes;
  icon?: IconName;
};

/** A link that looks like a button: it leads somewhere, but does nothing. */
export function ButtonLink({
  look = 'secondary',
  size = 'medium',
  icon,
  className,
  children,
  ...rest
}: ButtonLinkProps) {
  return (
    <Link {...rest} className={classNames(shape, sizes[size], looks[look], className)}>
      {icon !== undefined && <Icon name={icon} />}
      {children}
    </Link>
  );
}

type IconButtonProps = BareButtonProps & { icon: IconName; label: string };

export function IconButton({ icon, label, className, ...rest }: IconButtonProps) {
  return (
    <BareButton
      title={label}
      aria-label={label}
      {...rest}
      className={classNames(
        'inline-flex size-8 shrink-0 items-center justify-center rounded-md text-soft hover:bg-sunken hover:text-ink aria-disabled:opacity-50 print:hidden',
        className,
      )}
    >
      <Icon name={icon} />
    </BareButton>
  );
}
