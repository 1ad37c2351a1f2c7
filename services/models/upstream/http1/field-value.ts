/** The value of a header that is sent (RFC 9110 section 5.5): any other text could end its header early (RFC 9112 section 11.1). */
export const fieldValue = /^[\t\x20-\x7e\x80-\xff]*$/;

/** Why a request with any other is not sent. */
export const badFieldValue = 'a header value with characters that none may have';
