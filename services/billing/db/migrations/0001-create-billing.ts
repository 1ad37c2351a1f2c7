import { Migration } from '@mikro-orm/migrations';

/** Plans and accounts, the ledger with its lots and commitments, budgets and leases, invoices, coupons and payments. */
export class CreateBilling extends Migration {
  override up(): void {
    this.addSql(plansAndAccounts);
    this.addSql(ledger);
    this.addSql(creditSources);
    this.addSql(budgets);
    this.addSql(invoices);
    this.addSql(coupons);
    this.addSql(payments);
    this.addSql(auditOutbox);
  }
}

const plansAndAccounts = `
  create table plans (
    code text primary key check (code ~ '^[a-z0-9][a-z0-9-]*$'),
    name text not null,
    payg_enabled boolean not null,
    -- 0: the platform's default.
    requests_per_minute bigint not null default 600,
    tokens_per_minute bigint not null default 200000,
    concurrent_requests bigint not null default 100,
    monthly_credit_nano_usd bigint not null default 0 check (monthly_credit_nano_usd >= 0),
    features text[] not null default '{}',
    payment_terms_days integer not null default 30 check (payment_terms_days between 0 and 365)
  );
  -- An organization that nobody put on a plan is on the first: usage is invoiced, so that the gateway works out of the box.
  insert into plans (code, name, payg_enabled) values ('developer', 'Developer', true), ('prepaid', 'Prepaid', false);

  -- One row per organization that ever moved money: what every movement locks first. The balances are the sums of the ledger's
  -- entries by account, debits above 0. They make wrong states impossible: credit below nothing, or money from nowhere.
  create table accounts (
    tenant_id uuid primary key,
    -- Null: the default plan.
    plan_code text references plans (code),
    -- Per UTC month; null: none.
    payg_cap_nano_usd bigint check (payg_cap_nano_usd >= 0),
    -- Room which live leases on what the organization can pay take up.
    held_nano_usd bigint not null default 0 check (held_nano_usd >= 0),
    receivable bigint not null default 0 check (receivable >= 0),
    wallet bigint not null default 0 check (wallet <= 0),
    promotional bigint not null default 0 check (promotional <= 0),
    commitment bigint not null default 0 check (commitment <= 0),
    revenue bigint not null default 0 check (revenue <= 0),
    expired_credit bigint not null default 0 check (expired_credit <= 0),
    payg_accrual bigint not null default 0 check (payg_accrual >= 0),
    funding bigint not null default 0 check (funding >= 0),
    granted_credit bigint not null default 0,
    check (receivable + wallet + promotional + commitment + revenue + expired_credit + payg_accrual + funding
      + granted_credit = 0)
  ) with (fillfactor = 70);
`;

const ledger = `
  create table transactions (
    tenant_id uuid not null,
    -- UUIDv7 of the posting.
    id uuid not null,
    -- modelgateway.billing.v1.TransactionType; 0 for movements between our own accounts, which no list shows.
    type smallint not null check (type between 0 and 6),
    -- Above 0 for what the organization gains.
    amount_nano_usd bigint not null,
    balance_after_nano_usd bigint not null check (balance_after_nano_usd >= 0),
    posted_at timestamptz not null,
    -- The month whose invoice it belongs to.
    invoice_month date,
    description text not null default '',
    usage_event_id uuid,
    reverses_id uuid,
    -- What makes a repeat of an operator's or the system's posting harmless.
    request_id uuid,
    primary key (tenant_id, id)
  );
  create unique index transactions_by_event on transactions (tenant_id, usage_event_id) where usage_event_id is not null;
  create unique index transactions_by_request on transactions (tenant_id, request_id) where request_id is not null;
  create index transactions_of_invoice on transactions (tenant_id, invoice_month, id) where invoice_month is not null;
  create index transactions_reversing on transactions (tenant_id, reverses_id) where reverses_id is not null;

  create table entries (
    tenant_id uuid not null,
    transaction_id uuid not null,
    ordinal smallint not null,
    -- 1 receivable, 2 wallet, 3 promotional, 4 commitment, 5 revenue, 6 expired credit, 7 PAYG accrual, 8 funding, 9 granted credit
    account smallint not null check (account between 1 and 9),
    -- The lot or commitment behind accounts 2 to 4.
    item_id uuid check ((item_id is not null) = (account between 2 and 4)),
    -- Debits above 0, credits below.
    amount_nano_usd bigint not null check (amount_nano_usd <> 0),
    primary key (tenant_id, transaction_id, ordinal)
  );

  -- At the commit each new transaction has entries, and they sum to 0.
  create function require_balance() returns trigger
  language plpgsql set search_path = billing, pg_temp as $$
  begin
    if (select sum(amount_nano_usd) from entries where tenant_id = new.tenant_id and transaction_id = new.id)
      is distinct from 0 then
      raise exception 'transaction % is not balanced', new.id using errcode = '23514';
    end if;
    return null;
  end $$;
  create constraint trigger transactions_balance after insert on transactions
    deferrable initially deferred for each row execute function require_balance();

  -- Entries are written together with their transaction, and never added to one that was committed.
  create function require_own_transaction() returns trigger
  language plpgsql set search_path = billing, pg_temp as $$
  begin
    if exists (
      select from added
      left join transactions on transactions.tenant_id = added.tenant_id and transactions.id = added.transaction_id
      where transactions.xmin is distinct from pg_current_xact_id()::xid
    ) then
      raise exception 'entries belong to a transaction of the same commit' using errcode = '23503';
    end if;
    return null;
  end $$;
  create trigger entries_of_own_transaction after insert on entries
    referencing new table as added for each statement execute function require_own_transaction();

  -- What was posted is never edited; it is reversed.
  revoke update, delete, truncate on transactions, entries from modelgateway_app;
`;

const creditSources = `
  create table lots (
    tenant_id uuid not null,
    id uuid not null,
    -- modelgateway.billing.v1.LotSource
    source smallint not null check (source between 1 and 4),
    granted_nano_usd bigint not null check (granted_nano_usd > 0),
    remaining_nano_usd bigint not null check (remaining_nano_usd between 0 and granted_nano_usd),
    expires_at timestamptz,
    created_at timestamptz not null,
    primary key (tenant_id, id)
  );
  create index lots_with_credit on lots (tenant_id) where remaining_nano_usd > 0;
  create index lots_to_expire on lots (expires_at) where remaining_nano_usd > 0 and expires_at is not null;

  create table commitments (
    tenant_id uuid not null,
    id uuid not null,
    amount_nano_usd bigint not null check (amount_nano_usd > 0),
    consumed_nano_usd bigint not null default 0,
    -- What was left at its end and written off.
    expired_nano_usd bigint not null default 0 check (expired_nano_usd >= 0),
    period_start timestamptz not null,
    period_end timestamptz not null,
    created_at timestamptz not null,
    check (consumed_nano_usd between 0 and amount_nano_usd - expired_nano_usd),
    check (period_start < period_end),
    primary key (tenant_id, id)
  );
  create index commitments_to_expire on commitments (period_end)
    where consumed_nano_usd + expired_nano_usd < amount_nano_usd;
`;

const budgets = `
  -- What was spent, by UTC day of a key (1) and of a user (2), and beyond all credit by UTC month of an organization (3).
  -- The period is part of the key: nothing has to be reset, and nothing can be reset twice.
  create table spend (
    tenant_id uuid not null,
    kind smallint not null check (kind between 1 and 3),
    subject_id uuid not null,
    period_start date not null,
    posted_nano_usd bigint not null default 0 check (posted_nano_usd >= 0),
    -- Room which live leases take up; an organization's stands in its account.
    held_nano_usd bigint not null default 0 check (held_nano_usd >= 0),
    primary key (tenant_id, kind, subject_id, period_start)
  ) with (fillfactor = 70);

  create table user_limits (
    tenant_id uuid not null,
    user_id uuid not null,
    -- Per UTC day.
    limit_nano_usd bigint not null check (limit_nano_usd >= 0),
    primary key (tenant_id, user_id)
  );

  -- Room in a budget. It takes up room - charged, as long as that is above 0.
  create table leases (
    tenant_id uuid not null,
    id uuid not null,
    kind smallint not null check (kind between 1 and 3),
    subject_id uuid not null,
    -- The period of the budget; charges under the lease count there, however late they come.
    period_start date not null,
    holder_id uuid not null,
    fencing_token bigint not null default 1,
    -- For the one request which asked.
    central boolean not null,
    -- A key's cap as its holder knew it.
    limit_nano_usd bigint,
    room_nano_usd bigint not null check (room_nano_usd >= 0),
    used_nano_usd bigint not null default 0 check (used_nano_usd >= 0),
    in_flight_nano_usd bigint not null default 0 check (in_flight_nano_usd >= 0),
    charged_nano_usd bigint not null default 0 check (charged_nano_usd >= 0),
    -- 1 held, 2 closed, 3 lapsed (modelgateway.billing.v1.LeaseState)
    state smallint not null default 1 check (state between 1 and 3),
    -- When its holder last told of it.
    settled_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (tenant_id, id)
  ) with (fillfactor = 70);
  create unique index leases_by_id on leases (id);
  create index leases_of_budget on leases (tenant_id, kind, subject_id) where state = 1;
  create index leases_by_age on leases (expires_at);
`;

const invoices = `
  create table invoices (
    tenant_id uuid not null,
    id uuid not null,
    -- First day of the UTC month.
    month date not null check (month = date_trunc('month', month)),
    -- modelgateway.billing.v1.InvoiceStatus
    status smallint not null default 1 check (status between 1 and 3),
    number bigint unique,
    issued_at timestamptz,
    due_date date,
    paid_at timestamptz,
    subtotal_nano_usd bigint not null default 0,
    credits_nano_usd bigint not null default 0 check (credits_nano_usd >= 0),
    total_nano_usd bigint not null default 0 check (total_nano_usd >= 0),
    check (subtotal_nano_usd = credits_nano_usd + total_nano_usd),
    check ((status = 1) = (number is null) and (number is null) = (issued_at is null)),
    primary key (tenant_id, id),
    unique (tenant_id, month)
  );
  create unique index invoices_by_id on invoices (id);
  create index invoices_to_finalize on invoices (month) where status = 1;

  create table invoice_lines (
    tenant_id uuid not null,
    month date not null,
    model text not null,
    -- modelgateway.billing.v1.PriceUnit
    unit smallint not null,
    unit_price_nano_usd bigint not null,
    quantity bigint not null,
    amount_nano_usd bigint not null,
    primary key (tenant_id, month, model, unit, unit_price_nano_usd)
  ) with (fillfactor = 70);

  -- The last number given; it is taken in the transaction which finalizes, so that a failure leaves no gap.
  create table invoice_numbers (
    singleton boolean primary key default true check (singleton),
    last_number bigint not null
  );
  insert into invoice_numbers (last_number) values (0);

  -- Price versions which charges were explained by, kept whatever becomes of the catalog.
  create table price_versions (
    id uuid primary key,
    -- modelgateway.models.v1.PriceRates in protobuf's binary form.
    rates bytea not null
  );
`;

const coupons = `
  create table coupons (
    id uuid primary key,
    -- SHA-256 of the code in upper case: whoever reads the table cannot redeem.
    code_digest bytea not null unique,
    -- Enough to recognise the code by.
    code_preview text not null,
    amount_nano_usd bigint not null check (amount_nano_usd > 0),
    redemptions_max bigint not null check (redemptions_max > 0),
    redemptions bigint not null default 0 check (redemptions between 0 and redemptions_max),
    redeem_until timestamptz,
    credit_lifetime_days integer not null default 0,
    disabled_at timestamptz,
    created_at timestamptz not null
  );
  create table coupon_redemptions (
    coupon_id uuid not null references coupons (id),
    tenant_id uuid not null,
    user_id uuid not null,
    lot_id uuid not null,
    redeemed_at timestamptz not null,
    primary key (coupon_id, tenant_id)
  );
  -- Codes that a user tried, by UTC hour.
  create table coupon_attempts (
    tenant_id uuid not null,
    user_id uuid not null,
    hour timestamptz not null,
    attempts integer not null,
    primary key (tenant_id, user_id, hour)
  );
`;

const payments = `
  -- Events of payment providers which were taken, so that a repeat does nothing.
  create table payment_events (
    provider text not null,
    event_id text not null,
    tenant_id uuid,
    transaction_id uuid,
    received_at timestamptz not null,
    primary key (provider, event_id)
  );
`;

const auditOutbox = `
  -- Rows leave it when Auth has chained them.
  create table audit_outbox (
    id uuid primary key,
    -- modelgateway.auth.v1.AuditRecord in protobuf's binary form.
    record bytea not null
  );
`;
