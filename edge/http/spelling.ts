import { Type } from 'typebox';

/** How JSON spells a protobuf enum: one table for requests and answers. It lists what clients see, and omits UNSPECIFIED. */
export function spelling<const Values extends Readonly<Record<string, number>>>(values: Values) {
  type Name = keyof Values & string;
  const nameOf = new Map<number, Name>(Object.entries(values).map(([name, value]) => [value, name]));

  function value(name: Name): Values[Name];
  function value(name: Name | undefined): Values[Name] | 0;
  function value(name: Name | undefined): Values[Name] | 0 {
    return name === undefined ? 0 : values[name];
  }

  const names = Object.keys(values) as Name[];
  return {
    names,
    /** The schema of a field that takes one of the names. */
    schema: Type.Enum(names),
    /** The value that a name stands for; UNSPECIFIED when none is given. */
    value,
    /** The name of a value. A value that only a newer service knows has no name: it becomes null, which no type needs to provide for. */
    name: (value: number): Name => nameOf.get(value) ?? (null as unknown as Name),
  };
}
