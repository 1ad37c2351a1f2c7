import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt';

/** When something ends, in milliseconds since the Unix epoch; Infinity: never. */
export const msOrNever = (time: Timestamp | undefined): number =>
  time === undefined ? Number.POSITIVE_INFINITY : timestampMs(time);
