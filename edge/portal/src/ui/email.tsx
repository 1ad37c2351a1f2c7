/** An email address that wraps before its @, and within a word only if even that is too long. */
export function Email({ address }: { address: string }) {
  const at = address.lastIndexOf('@');
  return (
    <span className="wrap-anywhere">
      {address.slice(0, Math.max(at, 0))}
      {at > 0 && <wbr />}
      {address.slice(Math.max(at, 0))}
    </span>
  );
}
