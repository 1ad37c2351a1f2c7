import { useEffect, useState } from 'react';

/** Plays a sound that is not at any address. */
export function Player({ sound, label }: { sound: Blob; label: string }) {
  const [address, setAddress] = useState<string>();
  useEffect(() => {
    const made = URL.createObjectURL(sound);
    setAddress(made);
    return () => URL.revokeObjectURL(made);
  }, [sound]);
  // biome-ignore lint/a11y/useMediaCaption: whoever had it spoken gave the words.
  return <audio controls src={address} aria-label={label} className="w-full max-w-xl" />;
}
