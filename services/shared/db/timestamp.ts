import { type Timestamp, timestampFromDate } from '@bufbuild/protobuf/wkt';

/** A column's time as a message field; unset when the column is null. */
export const timestampOrUnset = (date: Date | null | undefined): Timestamp | undefined =>
  date == null ? undefined : timestampFromDate(date);
