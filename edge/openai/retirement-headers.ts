import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt';
import type { Retirement } from '#gen/modelgateway/models/v1/retirement_pb.ts';

/**
 * The headers that announce a model's retirement (service.md, Retirement headers): Deprecation (RFC 9745 section 2, a structured
 * date), Sunset (RFC 8594 section 3, an IMF-fixdate, only with a date) and one Link (RFC 8288) with the description and,
 * when there is one, the successor. Names are percent-encoded, so that no name can break out of its link.
 */
export function retirementHeaders(
  model: string,
  retirement: Retirement | undefined,
  publicUrl: string,
): Readonly<Record<string, string>> {
  if (retirement?.deprecatedAt === undefined) return none;
  const known = made.get(retirement);
  if (known !== undefined && known.model === model && known.publicUrl === publicUrl) return known.headers;
  const headers = makeHeaders(model, retirement, retirement.deprecatedAt, publicUrl);
  made.set(retirement, { model, publicUrl, headers });
  return headers;
}

const none: Readonly<Record<string, string>> = {};

/** Within a process the message is the catalog's own object, so its headers are made once per announcement, not per answer. */
const made = new WeakMap<Retirement, { model: string; publicUrl: string; headers: Record<string, string> }>();

function makeHeaders(
  model: string,
  retirement: Retirement,
  deprecatedAt: Timestamp,
  publicUrl: string,
): Record<string, string> {
  const headers: Record<string, string> = { deprecation: `@${Math.floor(timestampMs(deprecatedAt) / 1000)}` };
  if (retirement.sunsetAt !== undefined) headers.sunset = new Date(timestampMs(retirement.sunsetAt)).toUTCString();
  const links = [`<${publicUrl}/retirements/${modelPath(model)}>; rel="deprecation"; type="text/html"`];
  if (retirement.replacementModelName !== '') {
    links.push(`<${publicUrl}/v1/models/${modelPath(retirement.replacementModelName)}>; rel="successor-version"`);
  }
  headers.link = links.join(', ');
  return headers;
}

/** A model name as one path segment; a lone surrogate, which cannot be encoded, is replaced. */
const modelPath = (name: string): string => encodeURIComponent(name.toWellFormed());
