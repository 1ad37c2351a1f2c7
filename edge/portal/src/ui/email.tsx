/** An address that breaks before its @ rather than in a word, and in a word only where even that is too long. */
export function Email({ address }: { address: string }) {
  const at = address.lastIndexOf('@');
  return (
    <span className="wrap-anywhere">
      {address.slice(0, Math.max(at, 0))}
      <wbr />
      {address.slice(Math.max(at, 0))}
    </span>
  );
}
