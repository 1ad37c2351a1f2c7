/** Whether a text is an http or https URL and nothing but an address, so that the path of a call can be appended. */
export function isBareUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, search, hash } = new URL(text);
  return (protocol === 'http:' || protocol === 'https:') && username + password + search + hash === '';
}

/** A base URL without slashes at its end, which mean nothing: the path of a call is appended to it. */
export const plainBaseUrl = (baseUrl: string): string => baseUrl.replace(/\/+$/, '');
