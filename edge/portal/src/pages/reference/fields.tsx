import { objectOf, type Schema, type Schemas, typeName } from './description.ts';
import { Words } from './words.tsx';

type Field = { name: string; schema: Schema; required: boolean; description: string | undefined };

/** The fields of an object, with those of nested objects below them. */
export function Fields({ schema, schemas, label }: { schema: Schema; schemas: Schemas; label: string }) {
  const object = objectOf(schema, schemas);
  if (object === undefined) return <p className="text-sm text-soft">{typeName(schema)}</p>;
  const required = new Set(object.required);
  return (
    <FieldList
      label={label}
      schemas={schemas}
      fields={Object.entries(object.properties ?? {}).map(([name, field]) => ({
        name,
        schema: field,
        required: required.has(name),
        description: field.description,
      }))}
    />
  );
}

export function FieldList({ label, fields, schemas }: { label: string; fields: readonly Field[]; schemas: Schemas }) {
  return (
    <ul aria-label={label} className="grid grid-cols-[minmax(0,1fr)] divide-y divide-line">
      {fields.map(({ name, schema, required, description }) => (
        <li key={name} className="min-w-0 py-2 text-sm first:pt-0 last:pb-0">
          <div className="flex flex-wrap items-baseline gap-x-2">
            <code className="font-mono font-medium wrap-anywhere">{name}</code>
            <span className="text-xs text-faint wrap-anywhere">{typeName(schema)}</span>
            {!required && <span className="text-xs text-faint italic">optional</span>}
          </div>
          {description !== undefined && <Words text={description} />}
          {objectOf(schema, schemas) !== undefined && (
            <div className="mt-2 border-l border-line pl-4">
              <Fields schema={schema} schemas={schemas} label={`Fields of ${name}`} />
            </div>
          )}
        </li>
      ))}
    </ul>
  );
}
