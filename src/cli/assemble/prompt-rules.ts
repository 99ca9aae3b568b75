/**
 * By which rules the prompts of a model are built, as far as its engines of one kind tell. Prompts are built once for all of them, before
 * one is chosen: where two were started otherwise, what depends on it is not known.
 */
import type { EngineFacts } from '../../engines/index.js'
import type { Dialect, ModelSources } from '../../tokens/index.js'

export type PromptRules = NonNullable<ModelSources['rules']>

export function rulesOf(engines: readonly EngineFacts[], dialect: Dialect): PromptRules {
  const templates = engines.map(({ otherTemplates }) => otherTemplates?.value)
  const chats = templates.find((it) => it?.chats !== undefined)?.chats ?? whyMediaDiffer(engines)
  const texts = templates.find((it) => it?.texts !== undefined)?.texts
  const parsers = new Set(engines.map(({ reasoningParser }) => reasoningParser?.value))
  return {
    dialect,
    reasoningParser: parsers.size === 1 ? [...parsers][0] : undefined, // undefined: not told
    otherTemplates: { ...(chats === undefined ? {} : { chats }), ...(texts === undefined ? {} : { texts }) },
    takesMedia: engines[0]?.takesMedia?.value,
  }
}

/** What an engine was told of media decides which special tokens stand around its chats. */
function whyMediaDiffer(engines: readonly EngineFacts[]): string | undefined {
  const told = new Set(engines.map(({ takesMedia }) => takesMedia?.value))
  return told.size > 1 ? 'some of its engines were told to take media, or not to, and others were not' : undefined
}
