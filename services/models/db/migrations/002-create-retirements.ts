import { Migration } from '@mikro-orm/migrations';

/**
 * Retirements get a table of their own, which keeps those that were withdrawn; with it the points at which users are told, and
 * the mails. A deleted model stays as a row, since prices and retirements go on naming it.
 */
export class CreateRetirements extends Migration {
  override up(): void {
    this.addSql(deletedModels);
    this.addSql(retirements);
    this.addSql(reminders);
  }
}

const deletedModels = `
  alter table models add column deleted_at timestamptz;
  alter table models drop constraint models_name_key;
  create unique index models_name on models (name) where deleted_at is null;
`;

const retirements = `
  create table retirements (
    id uuid primary key,
    model_id uuid not null references models (id),
    -- Never moves (service.md, Model retirement fields).
    deprecated_at timestamptz not null,
    sunset_at timestamptz check (sunset_at >= deprecated_at),
    replacement_model_name text,
    retirement_note text,
    withdrawn_at timestamptz,
    -- Mails of an earlier date may still wait in Auth's outbox and are to be taken back.
    recalls_mails boolean not null default false,
    -- Every retirement carries a successor or a note, exactly one.
    check ((replacement_model_name is null) <> (retirement_note is null))
  );
  create unique index retirements_standing on retirements (model_id) where withdrawn_at is null;

  insert into retirements (id, model_id, deprecated_at, sunset_at, replacement_model_name, retirement_note)
    select gen_random_uuid(), id, deprecated_at, sunset_at, replacement_model_name, retirement_note
    from models where deprecated_at is not null;
  alter table models
    drop column deprecated_at, drop column sunset_at, drop column replacement_model_name, drop column retirement_note;
`;

const reminders = `
  create table reminder_points (
    retirement_id uuid not null references retirements (id),
    -- modelgateway.models.v1.ReminderPoint
    point smallint not null check (point between 1 and 5),
    -- Null: skipped, since its moment had passed when the date was set, or its mails would be stale.
    due_at timestamptz,
    -- When the last mail of the point was handed over.
    done_at timestamptz,
    primary key (retirement_id, point)
  );
  create index reminder_points_due on reminder_points (due_at) where done_at is null;

  create table reminders (
    id uuid primary key,
    retirement_id uuid not null,
    point smallint not null,
    user_id uuid not null,
    email text not null,
    -- modelgateway.models.v1.ReminderStatus
    status smallint not null check (status between 1 and 4),
    due_at timestamptz not null,
    sent_at timestamptz,
    attempts integer not null default 0,
    last_error text not null default '',
    subject text not null default '',
    text text not null default '',
    foreign key (retirement_id, point) references reminder_points (retirement_id, point),
    -- Each at most once per user, retirement and point (decisions.md, Models).
    unique (retirement_id, point, user_id)
  );
  create index retirements_recalling on retirements (id) where recalls_mails;
  create index reminders_pending on reminders (retirement_id, point) where status = 1;
`;
