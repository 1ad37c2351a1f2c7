import { Migration } from '@mikro-orm/migrations';

/** Clients quote the request id of a call. New ones begin with their time, so that the index grows at its end. */
export class FindRequests extends Migration {
  override up(): void {
    this.addSql('create index events_of_request on events (request_id);');
  }
}
