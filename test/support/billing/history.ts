import { inflateSync } from 'node:zlib';
import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { v7 } from 'uuid';
import { expect } from 'vitest';
import { Operation } from '#gen/modelgateway/models/v1/operation_pb.ts';
import { UsageEventSchema } from '#gen/modelgateway/usage/v1/usage_event_pb.ts';
import { ErrorReason, hasReason } from '#shared/errors.ts';
import { uuidv7 } from '#shared/ids.ts';
import { usdText } from '#shared/money.ts';
import { type BillingEdge, startBillingEdge } from '../../../edge/fixtures/billing-edge.ts';
import { paymentSignature, service, testPrices } from '../../../services/billing/fixtures/test-billing.ts';
import { expireCredit } from '../../../services/billing/workers/expire-credit.ts';
import { finalizeInvoices } from '../../../services/billing/workers/finalize-invoices.ts';
import { grantMonthlyCredit } from '../../../services/billing/workers/grant-monthly-credit.ts';
import { asService, startTestUsage, type TestUsage } from '../../../services/usage/fixtures/test-usage.ts';
import type { Act, CallFields } from './acts.ts';
import { BillingModel, costOf, dayOf, type ModelCall, type ModelLot, monthOf, nextMonth, sum } from './model.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** The third is a session, without a key. */
const keys = [uuidv7(), uuidv7(), ''];
const models = ['test/model', 'test/model-mini'];

/** Starts the history of one organization, at a time in UTC without its zone: `2027-01-31T22:10`. */
export async function startHistory(start: string): Promise<History> {
  let usage!: TestUsage;
  const edge = await startBillingEdge(async ({ database }) => {
    const own = { url: database.url, drop: async () => {} };
    usage = await startTestUsage({ database: own, auth: { getUsers: async () => ({ users: [] }) as never } });
    return usage;
  });
  const history = new History(edge, usage);
  await history.begin(Date.parse(`${start}Z`));
  return history;
}

/** One organization, both in the product, behind REST, and in the model. */
class History {
  readonly #calls: ModelCall['id'][] = [];
  readonly #payments: { id: string; lot: ModelLot | null }[] = [];
  readonly #users: readonly string[];
  readonly edge: BillingEdge;
  readonly usage: TestUsage;
  readonly model = new BillingModel();

  constructor(edge: BillingEdge, usage: TestUsage) {
    this.edge = edge;
    this.usage = usage;
    this.#users = [edge.userId, uuidv7()];
  }

  [Symbol.asyncDispose] = () => this.edge[Symbol.asyncDispose]();

  async begin(startMs: number): Promise<void> {
    await this.#tick();
    this.edge.billing.travel(startMs - this.model.nowMs);
    await this.perform({ kind: 'plan', payg: true, creditNanoUsd: 0n, termsDays: 30 });
  }

  /** Does the same in both; what must be refused must be refused in both. */
  async perform(act: Act): Promise<void> {
    const { model } = this;
    await this.#tick();
    const organization = `/admin/organizations/${this.edge.tenantId}`;
    switch (act.kind) {
      case 'call':
        return this.#record(act.calls, act.again);
      case 'wait':
        return this.#travel(act.hours * hourMs);
      case 'month':
        return this.#travel(Math.max(nextMonth(model.nowMs) + act.minutes * minuteMs - model.nowMs, 0));
      case 'grant': {
        const source = act.by === 'promotion' ? 'promotion' : 'purchase';
        const id = act.by === 'payment' ? `pi_${uuidv7()}` : null;
        const expiresMs = act.hours === null ? null : wholeSecond(model.nowMs) + act.hours * hourMs;
        const body = { amount_usd: usd(act.amount), source, expires_at: iso(expiresMs) };
        await this.#twice(`${organization}/credits`, { ...body, ...(id !== null && { payment_id: id }) });
        const lot = model.give(source, act.amount, expiresMs, act.by === 'promotion' ? 'grant' : 'purchase');
        return id === null ? undefined : this.#bookedByHand(id, lot);
      }
      case 'coupon': {
        const coupon = { amount_usd: usd(act.amount), credit_lifetime_days: act.days };
        const { code } = await this.#twice('/admin/coupons', coupon);
        const redeemed = await this.#call('POST', '/billing/coupons/redeem', 'owner', { code });
        if (redeemed.status === 429) return;
        expect(redeemed.status, redeemed.text).toBe(201);
        const { lot, balance_usd: balance } = redeemed.json as {
          lot: { expires_at: string | null };
          balance_usd: number;
        };
        model.give('coupon', act.amount, act.days === 0 ? null : Date.parse(lot.expires_at!), 'grant');
        if (act.days > 0) expect(Date.parse(lot.expires_at!) - model.nowMs).toBeCloseTo(act.days * 24 * hourMs, -5);
        return expect(nano(balance)).toBe(sum(model.wallet.map(({ left }) => left)) - model.owed);
      }
      case 'adjust': {
        const isGift = act.by === 'add';
        const mayOwe = act.by === 'owe';
        const body = {
          amount_usd: usd(isGift ? act.amount : -act.amount),
          description: 'adjusted',
          ...(mayOwe && { allow_negative_balance: true }),
        };
        const isTaken = isGift || model.take(act.amount, mayOwe);
        if (isGift) model.give('adjustment', act.amount, null, 'adjustment');
        await this.#twice(`${organization}/adjustments`, body, isTaken);
        return;
      }
      case 'commit': {
        const from = wholeSecond(model.nowMs) + act.inHours * hourMs;
        const until = from + act.hours * hourMs;
        const body = { amount_usd: usd(act.amount), period_start: iso(from), period_end: iso(until) };
        await this.#twice(`${organization}/commitments`, body, model.commit(act.amount, from, until));
        return;
      }
      case 'end': {
        const { data } = await this.#get(`${organization}/commitments`, 'operator');
        if (data.length === 0) return;
        const of = data[act.pick % data.length];
        const answer = await this.#call('POST', `${organization}/commitments/${of.id}/end`, 'operator');
        expect(answer.status, answer.text).toBe(200);
        model.endCommitment(
          Date.parse(of.period_start),
          Date.parse(of.period_end),
          Date.parse((answer.json as Json).period_end),
        );
        return this.#work();
      }
      case 'refund': {
        const charges = this.#calls.filter((id) => model.calls.get(id)!.cost > 0n);
        if (charges.length === 0) return;
        const id = charges[act.pick % charges.length]!;
        if (act.isLost) {
          const lost = { tenantId: this.edge.tenantId, usageEventId: id, description: 'lost' };
          for (const _ of ['once', 'again']) await patiently(() => this.edge.billing.billing.voidCharge(lost, service));
          model.refund(id, null);
          return;
        }
        const charge = (await this.#all('/billing/documents/transactions?type=usage')).find(
          ({ usage_event_id }) => usage_event_id === id,
        );
        const body = { description: 'refunded', ...(act.amount !== null && { amount_usd: usd(act.amount) }) };
        await this.#twice(`${organization}/transactions/${charge!.id}/refund`, body, model.refund(id, act.amount));
        return;
      }
      case 'plan': {
        const { payg, creditNanoUsd, termsDays } = act;
        const body = {
          name: 'Plan',
          payg_enabled: payg,
          monthly_credit_usd: usd(creditNanoUsd),
          payment_terms_days: termsDays,
        };
        expect((await this.#call('PUT', '/admin/plans/own', 'operator', body)).status).toBe(200);
        expect((await this.#call('PUT', `${organization}/plan`, 'operator', { code: 'own' })).status).toBe(200);
        model.plan = { payg, creditNanoUsd, termsDays };
        return this.#work();
      }
      case 'pay':
        return this.#pay(act.pick, act.by, organization);
      case 'payback':
        return this.#payBack(act);
      case 'void': {
        const invoice = await this.#pickInvoice(act.pick);
        if (invoice === null) return;
        const answer = await this.#call('POST', `${organization}/invoices/${invoice.id}/void`, 'operator');
        return expect(answer.status === 200, answer.text).toBe(model.void(invoice.month));
      }
      case 'cap':
        model.capNanoUsd = act.limit;
        return this.#limit('/billing/payg-spend-cap', act.limit);
      case 'limit':
        model.limitNanoUsd = act.limit;
        return this.#limit('/profile/cost-limit', act.limit);
      default:
        return act satisfies never;
    }
  }

  /** Compares what is shown outside lists. */
  async compareBalances(): Promise<void> {
    await this.#tick();
    const { model } = this;
    const lots = model.wallet.map(({ source, granted, left, expiresMs }) => [source, granted, left, iso(expiresMs)]);
    const balance = sum(model.wallet.map(({ left }) => left)) - model.owed;
    const wallet = await this.#get('/billing/wallet');
    const shown = (lot: Json) => [lot.source, nano(lot.granted_usd), nano(lot.remaining_usd), lot.expires_at];
    expect([nano(wallet.balance_usd), wallet.lots.map(shown)]).toEqual([balance, lots]);
    const commitment = await this.#get('/billing/commitment');
    const { commitment: agreed } = model;
    expect(commitment && [commitment.amount_usd, commitment.consumed_usd, commitment.remaining_usd].map(nano)).toEqual(
      agreed && [agreed.amount, agreed.consumed, agreed.left],
    );
    const budgetOf = ({ limit_usd, spent_usd, remaining_usd }: Json) =>
      [limit_usd, spent_usd, remaining_usd].map((usd) => (usd === null ? null : nano(usd)));
    const budget = (limit: bigint | null, spent: bigint) => [
      limit,
      spent,
      limit === null ? null : limit > spent ? limit - spent : 0n,
    ];
    const payg = await this.#get('/billing/payg-spend-cap');
    expect(budgetOf(payg)).toEqual(budget(model.capNanoUsd, model.paygSpent));
    expect(payg.resets_at).toBe(iso(nextMonth(model.nowMs)));
    const own = await this.#get('/profile/cost-limit');
    expect(budgetOf(own)).toEqual(budget(model.limitNanoUsd, model.spentToday(this.edge.userId)));
    const account = await this.#get(`/admin/organizations/${this.edge.tenantId}/account`, 'operator');
    expect(account).toMatchObject({ wallet, commitment, payg, receivable_usd: Number(usdText(model.receivable)) });
  }

  /** Compares invoices with their lines, transactions and PDF, and the list of all transactions. */
  async compareDocuments(): Promise<void> {
    const { model } = this;
    const months = await this.#invoices();
    expect(months.map(({ month }) => month)).toEqual([...model.invoices.keys()].toSorted().toReversed());
    const idOf = new Map(months.map(({ month, id }) => [month, id]));
    const asShown = ({ type, amount, balanceAfter, month }: (typeof model.transactions)[number]) => [
      type,
      amount,
      balanceAfter,
      month === null ? null : idOf.get(month),
    ];
    const shown = (one: Json) => [one.type, nano(one.amount_usd), nano(one.balance_after_usd), one.invoice_id];
    const expected = model.transactions.toReversed().map(asShown);
    expect((await this.#all('/billing/documents/transactions')).map(shown)).toEqual(expected);
    for (const { id, month } of months) {
      const invoice = model.invoices.get(month)!;
      const answer = await this.#get(`/billing/documents/invoices/${id}`);
      const total = invoice.subtotal - invoice.credits;
      const isOverdue = invoice.status === 'finalized' && !invoice.isPaid && invoice.dueDate! < dayOf(model.nowMs);
      expect(answer).toMatchObject({
        status: invoice.status,
        payment_status: invoice.isPaid ? 'paid' : isOverdue ? 'overdue' : 'pending',
        due_date: invoice.dueDate,
        period_start: `${month}-01T00:00:00.000Z`,
        period_end: iso(nextMonth(Date.parse(`${month}-01T00:00Z`))),
      });
      const amounts = [answer.subtotal_usd, answer.credits_usd, answer.total_usd].map(nano);
      expect(amounts).toEqual([invoice.subtotal, invoice.credits, total]);
      this.#compareLines(month, answer.line_items);
      const own = expected.filter((_, index) => model.transactions.at(-1 - index)!.month === month);
      expect((await this.#all(`/billing/documents/invoices/${id}/transactions`)).map(shown)).toEqual(own);
      const pdf = pdfText((await this.#call('GET', `/billing/documents/invoices/${id}?format=pdf`, 'owner')).raw);
      for (const amount of [invoice.subtotal, -invoice.credits, total]) expect(pdf).toContain(usdText(amount));
      for (const line of answer.line_items) expect(pdf).toContain(usdText(nano(line.amount_usd)));
      expect(pdf.includes('Voided')).toBe(invoice.status === 'voided');
      expect(pdf.includes('Amount due')).toBe(invoice.status === 'finalized' && !invoice.isPaid);
    }
  }

  /** Usage adds up to what was charged, however it is split and whoever reads it. */
  async compareUsage(timeZone: string): Promise<void> {
    const { model, edge } = this;
    await this.#tick();
    const calls = [...model.calls.values()];
    const ofMonth = calls.filter(({ atMs }) => monthOf(atMs) === monthOf(model.nowMs));
    const measured = (answer: Json) => [answer.requests, answer.total_tokens, nano(answer.cost_usd)];
    const measures = (of: readonly ModelCall[]) => [
      of.length,
      of.reduce((total, { tokens }) => total + tokens, 0),
      sum(of.map(({ cost }) => cost)),
    ];
    expect(measured(await this.#get('/usage/current?scope=tenant'))).toEqual(measures(ofMonth));
    const mine = ofMonth.filter(({ userId }) => userId === edge.userId);
    expect(measured(await this.#get('/usage/current'))).toEqual(measures(mine));

    const last = dayIn(timeZone, model.nowMs);
    const first = dayIn(timeZone, model.nowMs - 29 * 24 * hourMs);
    const range = `start_date=${first}&end_date=${last}&scope=tenant&timezone=${timeZone}`;
    const inRange = calls.filter(({ atMs }) => dayIn(timeZone, atMs) >= first && dayIn(timeZone, atMs) <= last);
    const sumsOf = (rows: readonly Json[]) => rows.map(measured).reduce(add, [0, 0, 0n]);
    const summary = await this.#get(`/usage/summary?${range}`);
    for (const rows of [[summary], summary.by_model, summary.by_api_key, summary.by_endpoint]) {
      expect(sumsOf(rows)).toEqual(measures(inRange));
    }
    for (const granularity of ['daily', 'weekly', 'monthly']) {
      const report = await this.#get(`/usage/report?${range}&granularity=${granularity}&group_by=model`);
      expect(measured(report.totals), granularity).toEqual(measures(inRange));
      expect(sumsOf(report.buckets), granularity).toEqual(measures(inRange));
      expect(sumsOf(report.buckets.flatMap(({ groups }: Json) => groups)), granularity).toEqual(measures(inRange));
    }
    const breakdown = await this.#get(`/usage/tenant-breakdown?${range.replace('&scope=tenant', '')}`);
    expect(sum(breakdown.users.map(({ cost_usd }: Json) => nano(cost_usd)))).toBe(measures(inRange)[2]);

    const events = await this.#all(`/usage/history?${range}`);
    expect(sum(events.map(({ cost_usd }) => nano(cost_usd)))).toBe(measures(inRange)[2]);
    const [head, ...rows] = (await this.#call('GET', `/usage/export?${range}`, 'owner')).text.trimEnd().split('\r\n');
    const column = head!.split(',').indexOf('cost_usd');
    const costs = rows.map((row) => nano(Number(row.split(',')[column])));
    expect([costs.length, sum(costs)]).toEqual([inRange.length, measures(inRange)[2]]);
  }

  /** Lines add up to the subtotal; each is its quantity times its price, apart from the rounding of its calls. */
  #compareLines(month: string, lines: readonly Json[]): void {
    const { subtotal } = this.model.invoices.get(month)!;
    expect(sum(lines.map(({ amount_usd }) => nano(amount_usd)))).toBe(subtotal);
    const calls = [...this.model.calls.values()].filter((one) => one.month === month && one.cost > 0n);
    for (const line of lines) {
      const exact = line.quantity * line.unit_price_usd;
      expect(Math.abs(exact - line.amount_usd) * 1e9).toBeLessThan(4 * calls.length);
    }
    const tokens = lines.filter(({ unit }) => unit.endsWith('tokens')).map(({ quantity }) => nano(quantity) / 1_000n);
    expect(sum(tokens)).toBe(BigInt(calls.reduce((total, one) => total + one.tokens, 0)));
  }

  async #record(calls: readonly CallFields[], again: boolean): Promise<void> {
    const { model } = this;
    const made = calls.map((fields) => {
      const atMs = model.nowMs - fields.minutesAgo * minuteMs;
      const { rates, id: priceVersionId } = testPrices[fields.price]!;
      const cached = Math.floor(fields.input * fields.cachedPart);
      const cost = costOf(
        {
          input: rates!.inputPerMillionNanoUsd,
          cached: rates!.cachedInputPerMillionNanoUsd ?? rates!.inputPerMillionNanoUsd,
          output: rates!.outputPerMillionNanoUsd,
          request: rates!.perRequestNanoUsd,
        },
        { input: fields.input, cached, output: fields.output },
      );
      const id = v7({ msecs: atMs });
      const whose = { userId: this.#users[fields.user]!, apiKeyId: keys[fields.key]!, model: models[fields.model]! };
      const event = create(UsageEventSchema, {
        ...whose,
        id,
        occurredAt: timestampFromMs(atMs),
        tenantId: this.edge.tenantId,
        endpoint: '/v1/chat/completions',
        operation: Operation.CHAT_COMPLETIONS,
        success: true,
        status: 200,
        requestId: 'req_1',
        priceVersionId,
        usage: {
          inputTokens: BigInt(fields.input),
          cachedInputTokens: BigInt(cached),
          outputTokens: BigInt(fields.output),
          costNanoUsd: cost,
        },
      });
      return { event, call: { ...whose, id, atMs, tokens: fields.input + fields.output, cost } };
    });
    const events = made.map(({ event }) => event);
    // A batch whose answer was lost is sent again, with more in it.
    const batches = again ? [events.slice(0, 1), events] : [events];
    for (const batch of batches) {
      const { rejected } = await this.usage.client.record({ events: batch }, asService());
      const { refused } = await patiently(() => this.edge.billing.billing.charge({ events: batch }, service));
      expect([rejected, refused]).toEqual([[], []]);
      model.charge(made.slice(0, batch.length).map(({ call }) => call));
    }
    this.#calls.push(...events.map(({ id }) => id));
  }

  async #pay(pick: number, by: string, organization: string): Promise<void> {
    const { model, edge } = this;
    const invoice = await this.#pickInvoice(pick);
    if (invoice === null) return;
    if (by.startsWith('operator')) {
      const id = by === 'operator' ? null : `pi_${uuidv7()}`;
      const body = id === null ? undefined : { payment_id: id };
      const answer = await this.#call('POST', `${organization}/invoices/${invoice.id}/pay`, 'operator', body);
      const wasPaid = model.invoices.get(invoice.month)!.isPaid;
      if (id !== null && wasPaid) return expect(answer.status, answer.text).toBe(409);
      const lot = model.pay(invoice.month);
      expect(answer.status === 200, answer.text).toBe(lot !== false);
      return id === null || lot === false ? undefined : this.#bookedByHand(id, lot);
    }
    const { subtotal, credits } = model.invoices.get(invoice.month)!;
    // Payments come in whole cents.
    const total = Number((subtotal - credits + 9_999_999n) / 10_000_000n);
    const cents = Math.max(by === 'cents' ? total : by === 'more' ? total + 123 : total - 1, 1);
    const metadata = { tenant_id: edge.tenantId, invoice_id: invoice.id };
    const id = `pi_${uuidv7()}`;
    await this.#tell('payment_intent.succeeded', { id, amount_received: cents, metadata });
    this.#payments.push({ id, lot: model.receive(invoice.month, BigInt(cents) * 10_000_000n) });
  }

  /** The event of a payment that an operator has booked by its id comes after all. */
  async #bookedByHand(id: string, lot: ModelLot | null): Promise<void> {
    const intent = { id, amount_received: 999, metadata: { tenant_id: this.edge.tenantId } };
    await this.#tell('payment_intent.succeeded', intent, true);
    this.#payments.push({ id, lot });
  }

  /** Money goes back to whoever paid, and all or, of a dispute, some may come in again; of which the provider may tell first. */
  async #payBack({ pick, cents, as, undonePart, inOrder }: Extract<Act, { kind: 'payback' }>): Promise<void> {
    const payment = this.#payments[pick % this.#payments.length];
    if (payment === undefined) return;
    const isRefund = as === 'refund';
    const undone = isRefund && undonePart > 0 ? cents : Math.floor(cents * undonePart);
    const money = { id: `${as}_${uuidv7()}`, payment_intent: payment.id, amount: cents };
    const told: [string, object][] = isRefund
      ? [
          ['refund.created', { ...money, status: 'pending' }],
          ['refund.failed', { ...money, status: 'failed' }],
        ]
      : [
          ['charge.dispute.funds_withdrawn', { ...money, status: 'needs_response' }],
          [
            'charge.dispute.funds_reinstated',
            { ...money, status: 'lost', balance_transactions: [{ amount: -cents }, { amount: undone }] },
          ],
        ];
    const events = undone > 0 ? told : told.slice(0, 1);
    for (const [type, object] of inOrder ? events : events.toReversed()) await this.#tell(type, object);
    // What was undone whole before any was taken moves nothing.
    if (!inOrder && undone === cents) return;
    const amountOf = (moved: number) => BigInt(moved) * 10_000_000n;
    this.model.take(amountOf(cents), true, payment.lot);
    if (undone > 0) this.model.give('purchase', amountOf(undone), null, 'adjustment');
  }

  /** An event of the payment provider, which it repeats. */
  async #tell(type: string, object: object, isBooked = false): Promise<void> {
    const payload = JSON.stringify({ id: `evt_${uuidv7()}`, type, data: { object: { currency: 'usd', ...object } } });
    for (const duplicate of [isBooked, true]) {
      const headers = { 'stripe-signature': paymentSignature(payload, Math.floor(this.model.nowMs / 1_000)) };
      const answer = await this.#call('POST', '/webhooks/payments', '', payload, headers);
      expect(answer.json, answer.text).toEqual({ received: true, duplicate });
    }
  }

  async #limit(path: string, limit: bigint | null): Promise<void> {
    const answer =
      limit === null
        ? await this.#call('DELETE', path, 'owner')
        : await this.#call('PUT', path, 'owner', { limit_usd: usd(limit) });
    expect(answer.status, answer.text).toBe(limit === null ? 204 : 200);
  }

  /** Sends a POST and its repeat under one Idempotency-Key, which must have the same answer; returns that answer. */
  async #twice(path: string, body: object, isAllowed = true): Promise<Json> {
    const key = { 'idempotency-key': uuidv7() };
    const first = await this.#call('POST', path, 'operator', body, key);
    expect(first.status, `${path} ${first.text}`).toBe(isAllowed ? 201 : 409);
    const repeat = await this.#call('POST', path, 'operator', body, key);
    expect([repeat.status, repeat.text.replace(/req_\w+/, '')]).toEqual([
      first.status,
      first.text.replace(/req_\w+/, ''),
    ]);
    return first.json;
  }

  async #pickInvoice(pick: number): Promise<{ id: string; month: string } | null> {
    const invoices = await this.#invoices();
    return invoices.length === 0 ? null : invoices[pick % invoices.length]!;
  }

  async #invoices(): Promise<{ id: string; month: string }[]> {
    const all = await this.#all('/billing/documents/invoices');
    return all.map(({ id, period_start }) => ({ id, month: period_start.slice(0, 7) }));
  }

  async #get(path: string, token = 'owner'): Promise<Json> {
    const answer = await this.#call('GET', path, token);
    expect(answer.status, `${path} ${answer.text}`).toBe(200);
    return answer.json;
  }

  /** A whole list, in pages that do not divide it evenly. */
  async #all(path: string): Promise<Json[]> {
    const rows: Json[] = [];
    for (let page = 1; ; page++) {
      const { data, pagination } = await this.#get(`${path}${path.includes('?') ? '&' : '?'}limit=7&page=${page}`);
      rows.push(...data);
      if (!pagination.has_next) return rows;
    }
  }

  /** A REST call, repeated while the machine is too busy for it: then nothing was done. */
  async #call(...words: Parameters<BillingEdge['call']>): ReturnType<BillingEdge['call']> {
    for (;;) {
      const answer = await this.edge.call(...words);
      if (answer.status !== 503) return answer;
    }
  }

  async #travel(ms: number): Promise<void> {
    this.edge.billing.travel(ms);
    await this.#work();
  }

  async #work(): Promise<void> {
    const { deps } = this.edge.billing;
    await this.#tick();
    for (const work of [expireCredit, grantMonthlyCredit, finalizeInvoices]) await patiently(() => work(deps));
    this.model.work();
  }

  /** The clocks of the model and of Usage follow the database's, as Billing sees it. */
  async #tick(): Promise<void> {
    const { deps } = this.edge.billing;
    this.model.nowMs = await patiently(() => deps.databaseNow(deps.database.pool));
    this.usage.clock.set(this.model.nowMs);
  }
}

/** Repeats calls that got no connection to the database: on a busy machine nobody gets one in time. */
async function patiently<Answer>(work: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      if (!hasReason(error, ErrorReason.OVERLOADED) && !/timeout/.test(String(error))) throw error;
    }
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape; the comparisons are the types.
type Json = any;

/** Amounts are below a million USD, so a double holds them to the nano-USD. */
const nano = (usd: number): bigint => BigInt(Math.round(usd * 1e9));
const usd = (nanoUsd: bigint): number => Number(usdText(nanoUsd));
const iso = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString());
const wholeSecond = (ms: number): number => Math.floor(ms / 1_000) * 1_000;
const add = ([a, b, c]: Json, [d, e, f]: Json): Json => [a + d, b + e, c + f];
const dayIn = (timeZone: string, ms: number): string =>
  new Intl.DateTimeFormat('sv-SE', { timeZone, dateStyle: 'short' }).format(ms);

/** The words of a PDF, as pdfkit writes them: in hexadecimal, split where letters are kerned, in deflated streams. */
function pdfText(pdf: Buffer): string {
  const pieces: string[] = [];
  for (const { index, 0: head } of pdf.toString('latin1').matchAll(/FlateDecode\n>>\nstream\n/g)) {
    const content = inflateSync(pdf.subarray(index + head.length)).toString('latin1');
    for (const [, words] of content.matchAll(/\[([^\]]*)\] TJ/g)) {
      const text = [...words!.matchAll(/<([0-9a-f]*)>/g)].map(([, hex]) => Buffer.from(hex!, 'hex').toString('latin1'));
      pieces.push(text.join(''));
    }
  }
  return pieces.join('\n');
}
