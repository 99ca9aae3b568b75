/** `/v1/responses` and `/v1/messages` as the chats that the real engines make of them: their conversions are recorded (`tokens/chat`). */
import type { Body, Dialect, TemplateHabits } from '../../../tokens/index.js'
import { convertMessages, convertResponses, LoadOnlyError } from '../../../tokens/index.js'
import type { Json, Refusal } from './exchange.js'

/** Of the template that simulated engines have: it takes messages in any order, and knows neither an effort nor a switch of thinking. */
const habits: TemplateHabits = {
  takesLateSystem: () => true,
  effortOfNone: () => 'low',
  thinkingSwitch: () => undefined,
  hasLowEffort: () => false,
  takesThoughts: () => false,
}

/** The body of the chat; other fields stay. Throws what `refuse` makes of a body that the engine does not take. */
export function chatOf(
  route: 'responses' | 'messages',
  body: Json,
  dialect: Dialect,
  refuse: (message: string) => Refusal,
  reasoningParser: string | null = null,
): Json {
  const convert = route === 'responses' ? convertResponses : convertMessages
  try {
    const chat = convert(body as Body, { dialect, reasoningParser }, habits) as Json
    return { ...body, tools: undefined, tool_choice: undefined, ...chat }
  } catch (error) {
    if (error instanceof LoadOnlyError) throw refuse(error.message)
    throw error
  }
}
