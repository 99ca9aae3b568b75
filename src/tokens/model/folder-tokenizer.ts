/** A model's files at work in the caller's thread, for tools that take their time: nothing is remembered between calls. */
import type { PromptRules } from '../chat/build-prompt.js'
import { buildPrompt, plainRules } from '../chat/build-prompt.js'
import { ChatTemplates, renderChat } from '../chat/chat-template.js'
import type { Body, ChooseTemplate, Dialect } from '../chat/request.js'
import { LoadOnlyError } from '../chat/request.js'
import { Encoder } from '../encode/encoder.js'
import type { EncoderPlan, LibraryPlan } from '../vocabulary/plan.js'
import { viewVocabulary } from '../vocabulary/vocabulary.js'
import { loadModel, readShared } from './loaded-model.js'

const limits = { stepsMax: Infinity, outputMax: 64 << 20, deadlineMs: 10_000 }

export class FolderTokenizer {
  /** Undefined where only the library knows the tokenizer's steps. */
  readonly encoder: Encoder | undefined
  /** The default template's source. */
  readonly templateSource: string | undefined
  readonly specials: Readonly<Record<string, string>>
  readonly #templates: ChatTemplates
  readonly #rules: PromptRules

  /** Blocking, for seconds. Throws `WR_TOKENS_BAD_TOKENIZER` for files that are no tokenizer. */
  constructor(folder: string, rules: Partial<PromptRules> = {}) {
    const loaded = loadModel(folder, folder)
    const plan = JSON.parse(readShared(loaded.plan)) as EncoderPlan | LibraryPlan
    const isOwn = plan.kind !== 'library' && loaded.vocabulary !== undefined
    this.encoder = isOwn ? new Encoder(plan, viewVocabulary(loaded.vocabulary)) : undefined
    this.templateSource = loaded.templates.find(({ name }) => name === 'default')?.source
    this.specials = loaded.specials
    this.#templates = new ChatTemplates(loaded.templates, loaded.specials)
    this.#rules = { ...plainRules, ...rules }
  }

  /** The text that an engine makes of the body of a chat. Throws where it would refuse the body. */
  renderChat(body: Body, dialect: Dialect = this.#rules.dialect): string {
    const choose: ChooseTemplate = (...use) => {
      const chosen = this.#templates.choose(...use)
      if (!chosen) throw new LoadOnlyError('no-template', 'the model has no chat template')
      return chosen
    }
    const prompt = buildPrompt('chat', body, { ...this.#rules, dialect }, choose)
    if (prompt.kind !== 'chat') throw new LoadOnlyError('malformed', 'only chats are rendered')
    const { render, chosen } = prompt
    const options = { limits, now: () => performance.now(), date: () => new Date() }
    return renderChat(chosen, render, options) + (prompt.suffix ?? '')
  }
}
