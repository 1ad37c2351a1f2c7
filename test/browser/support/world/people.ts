import type { TestGateway } from '../../../support/gateway.ts';
import type { Credentials } from '../browser.ts';

const password = 'Correct-horse-1';

/** One user per role; the operator is in a different organization from the others. */
export const users = {
  owner: { email: 'owner@example.com', password },
  admin: { email: 'admin@example.com', password },
  member: { email: 'member@example.com', password },
  operator: { email: 'operator@example.com', password },
} as const satisfies Record<string, Credentials>;
type UserName = keyof typeof users;

export type Person = { id: string; token: string };
export type People = { tenantId: string } & Record<UserName, Person>;

const organizationName = 'Northwind Robotics';

/** Creates the organization as an operator does, and its people by invitation. */
export async function invitePeople(gateway: TestGateway): Promise<People> {
  const operatorToken = await gateway.login(users.operator);
  await ok(gateway, 'PATCH', '/profile', operatorToken, { first_name: 'Otto', last_name: 'Operator' });
  const made = await ok(gateway, 'POST', '/admin/organizations', operatorToken, {
    name: organizationName,
    owner_email: users.owner.email,
  });
  const owner = await accept(gateway, operatorToken, 'owner', 'Olga', 'Owner');
  const invited = [
    ['admin', 'Adam', 'Admin'],
    ['member', 'Mia', 'Member'],
  ] as const;
  for (const [role] of invited) {
    await ok(gateway, 'POST', '/invitations', owner.token, { email: users[role].email, role });
  }
  const [admin, member] = await Promise.all(
    invited.map(([role, first, last]) => accept(gateway, operatorToken, role, first, last)),
  );
  return {
    tenantId: made.organization.id,
    owner,
    admin: admin!,
    member: member!,
    operator: { id: (await ok(gateway, 'GET', '/profile', operatorToken)).id, token: operatorToken },
  };
}

async function accept(
  gateway: TestGateway,
  operatorToken: string,
  user: UserName,
  firstName: string,
  lastName: string,
): Promise<Person> {
  const { email, password } = users[user];
  const token = await tokenMailedTo(gateway, operatorToken, email);
  const accepted = await ok(gateway, 'POST', '/auth/accept-invite', '', {
    token,
    password,
    first_name: firstName,
    last_name: lastName,
  });
  return { id: accepted.user.id, token: await gateway.login(users[user]) };
}

/** The one-time token in the latest mail to an address; operators see mails while no mail server is set. */
export async function tokenMailedTo(gateway: TestGateway, operatorToken: string, email: string): Promise<string> {
  const { data } = await ok(gateway, 'GET', `/admin/mail?search=${encodeURIComponent(email)}`, operatorToken);
  const token = /\?token=([\w-]+)/.exec(data[0]?.text ?? '')?.[1];
  if (token === undefined) throw new Error(`no mail with a token to ${email}`);
  return token;
}

/** The body of a call below `/api/v1` that must succeed. */
export async function ok(gateway: TestGateway, method: string, path: string, token: string, body?: unknown) {
  const answer = await gateway.call(method, `/api/v1${path}`, token, body);
  if (answer.status >= 300) throw new Error(`${method} ${path} answered ${answer.status}: ${answer.text}`);
  return answer.json;
}
