import { Link } from '../../router/link.tsx';
import { Notice } from '../../ui/notice.tsx';
import { AuthFrame, authLink } from './auth-frame.tsx';

export function Register() {
  return (
    <AuthFrame
      title="Create an account"
      footer={
        <Link href="/sign-in" className={authLink}>
          Back to sign-in
        </Link>
      }
    >
      <Notice>
        <p>Self-service registration is unavailable.</p>
        <p className="mt-2">
          New users join by invitation: ask an owner or admin of your organization to invite you. The email you get has
          a link for setting your password.
        </p>
      </Notice>
    </AuthFrame>
  );
}
