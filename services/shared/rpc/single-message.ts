/** A request of one message, which a local transport can take out without iterating. */
export class SingleMessage<T> implements AsyncIterable<T> {
  readonly message: T;

  constructor(message: T) {
    this.message = message;
  }

  async *[Symbol.asyncIterator](): AsyncIterator<T> {
    yield this.message;
  }
}
