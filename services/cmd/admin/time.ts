import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';

/** A time that people can read and scripts can sort; empty when unset. */
export const timeText = (time: Timestamp | undefined): string =>
  time === undefined ? '' : timestampDate(time).toISOString();
