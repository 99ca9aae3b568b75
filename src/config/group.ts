/** A group is one section of the file: the options of one room, and the rule that turns their values into what the room takes. */
import type { Option } from './option.js'

type Values<Options> = { readonly [Name in keyof Options]: Options[Name] extends Option<infer T> ? T : never }

export interface OptionGroup<Result = unknown> {
  /** The section's key in the file. */
  readonly name: string
  readonly says: string
  readonly options: Readonly<Record<string, Option>>
  /**
   * All values, defaults included, and the names that a source set. Throws `WR_INVALID_CONFIG` with
   * `issues: [{ field, message }]` when values exclude each other; the loader adds where each came from.
   */
  readonly complete: (values: Readonly<Record<string, unknown>>, isSet: (name: string) => boolean) => Result
}

export function defineGroup<Options extends Readonly<Record<string, Option>>, Result>(
  name: string,
  says: string,
  options: Options,
  complete: (values: Values<Options>, isSet: (name: keyof Options & string) => boolean) => Result,
): OptionGroup<Result> {
  return {
    name,
    says,
    options,
    complete: (values, isSet) => complete(values as Values<Options>, isSet),
  }
}
