import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** A key and a self-signed certificate for 127.0.0.1 and localhost, as PEM. `ca` is what a client trusts. */
type TestCertificate = { key: string; cert: string; ca: string };

/** Makes a self-signed certificate (X.509 v3, RFC 5280), valid from an hour ago for a day, or until a moment. */
export function selfSignedCertificate({ untilMs }: { untilMs?: number } = {}): TestCertificate {
  const nowMs = Date.now();
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const name = sequence(set(sequence(oid('2.5.4.3'), utf8('localhost'))));
  const ecdsaWithSha256 = sequence(oid('1.2.840.10045.4.3.2'));
  const subjectAltName = sequence(
    oid('2.5.29.17'),
    octets(sequence(tagged(0x82, Buffer.from('localhost')), tagged(0x87, Buffer.from([127, 0, 0, 1])))),
  );
  const basicConstraints = sequence(
    oid('2.5.29.19'),
    tagged(0x01, Buffer.from([0xff])),
    octets(sequence(boolean(true))),
  );
  const toBeSigned = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))),
    tagged(0x02, Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    ecdsaWithSha256,
    name,
    sequence(utcTime(nowMs - 3_600_000), utcTime(untilMs ?? nowMs + 86_400_000)),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(subjectAltName, basicConstraints)),
  );
  const signature = sign('sha256', toBeSigned, privateKey);
  const der = sequence(toBeSigned, ecdsaWithSha256, tagged(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const cert = `-----BEGIN CERTIFICATE-----\n${der.toString('base64')}\n-----END CERTIFICATE-----\n`;
  return { key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(), cert, ca: cert };
}

/** One DER element: tag, length, content (X.690 section 8.1). */
function tagged(tag: number, content: Buffer): Buffer {
  const length = content.length;
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content]);
  if (length < 0x100) return Buffer.concat([Buffer.from([tag, 0x81, length]), content]);
  return Buffer.concat([Buffer.from([tag, 0x82, length >> 8, length & 0xff]), content]);
}

const sequence = (...parts: Buffer[]) => tagged(0x30, Buffer.concat(parts));
const set = (...parts: Buffer[]) => tagged(0x31, Buffer.concat(parts));
const octets = (content: Buffer) => tagged(0x04, content);
const utf8 = (text: string) => tagged(0x0c, Buffer.from(text));
const boolean = (value: boolean) => tagged(0x01, Buffer.from([value ? 0xff : 0]));
const utcTime = (ms: number) =>
  tagged(0x17, Buffer.from(`${new Date(ms).toISOString().slice(2, 19).replaceAll(/[-:T]/g, '')}Z`));

function oid(dotted: string): Buffer {
  const [first, second, ...rest] = dotted.split('.').map(Number);
  return tagged(0x06, Buffer.from([first! * 40 + second!, ...rest.flatMap(base128)]));
}

/** An arc of an object identifier: seven bits per byte, the highest bit set on all but the last. */
function base128(value: number): number[] {
  const bytes = [value & 0x7f];
  for (let left = value >> 7; left > 0; left >>= 7) bytes.unshift((left & 0x7f) | 0x80);
  return bytes;
}
