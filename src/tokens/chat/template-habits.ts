/** What engines try out on a model's chat template before they convert other routes to chats. Tried when first asked, once. */
import type { Scope } from '../template/run.js'
import { Template } from '../template/template.js'
import type { Value } from '../template/values.js'
import type { ParsedTemplate } from './chat-template.js'
import type { TemplateHabits } from './converted.js'
import type { ShownSwitch } from './thinking-switch.js'
import { shownSwitch } from './thinking-switch.js'

const options = {
  limits: { stepsMax: 20_000, outputMax: 1 << 20, deadlineMs: 1000 },
  now: (): number => performance.now(),
  date: (): Date => new Date(0),
}
const mark = 'a system message behind others'

export function habitsOf(templates: readonly ParsedTemplate[], constants: Scope): TemplateHabits {
  const others = new Map<'raises' | 'shows', boolean>()
  const usual = templates.find(({ name }) => name === 'default')
  const sglangs = templates[0]
  let effort: string | undefined
  let shown: ShownSwitch | undefined
  const look = (): ShownSwitch | undefined => (shown ??= sglangs && shownSwitch(sglangs.source, sglangs.parsed))
  return {
    takesLateSystem(dialect) {
      const asks = dialect === 'sglang' ? 'shows' : 'raises'
      const known = others.get(asks)
      if (known !== undefined) return known
      const tried = asks === 'shows' ? templates.slice(0, 1) : templates
      const takes = tried.length > 0 && tried.every((it) => showsLate(it, asks === 'shows'))
      others.set(asks, takes)
      return takes
    },
    effortOfNone: () => (effort ??= usual ? effortOfNone(new Template(usual.parsed), constants) : 'none'),
    thinkingSwitch: () => look()?.thinkingSwitch,
    hasLowEffort: () => look()?.hasLowEffort ?? false,
    takesThoughts: () => false, // only an engine that encodes chats without a template does
  }
}

/** With neither the model's special tokens nor the functions of `transformers`: engines try it bare. */
function showsLate({ source, parsed }: ParsedTemplate, mustShow: boolean): boolean {
  if (/\{%-?\s*generation\b/.test(source)) return false // a tag that only `transformers` knows
  const turn = (role: string, content: string): Value => ({ role, content })
  const messages = [turn('system', 't'), turn('user', 't'), turn('system', mark), turn('user', 't')]
  const text = rendered(new Template(parsed), { messages, add_generation_prompt: false })
  return text !== undefined && (!mustShow || text.includes(mark))
}

const efforts = ['low', 'medium', 'high', 'xhigh', 'max']

/** `low` where the template refuses `none`, or shows the same as for thinking. */
function effortOfNone(template: Template, constants: Scope): string {
  const tried = (effort: string): string | undefined =>
    rendered(
      template,
      {
        messages: [{ role: 'user', content: 'Hi' }],
        tools: null,
        documents: null,
        add_generation_prompt: true,
        reasoning_effort: effort,
        enable_thinking: effort !== 'none',
      },
      constants,
    )
  const none = tried('none')
  return none === undefined || efforts.some((effort) => tried(effort) === none) ? 'low' : 'none'
}

function rendered(
  template: Template,
  variables: Readonly<Record<string, Value>>,
  constants?: Scope,
): string | undefined {
  try {
    return template.render(variables, options, constants)
  } catch {
    return undefined
  }
}
