import { type Timestamp, timestampDate } from '@bufbuild/protobuf/wkt';

/** A time as people read and scripts sort it; empty when unset. */
export const timeText = (time: Timestamp | undefined): string =>
  time === undefined ? '' : timestampDate(time).toISOString();
