/** Requests of every route at random, small and of every shape that an engine takes or refuses. */
import type { Route } from './chat/request.js'
import { Chats, Completions } from './engine-chats.case.js'
import { Messages } from './engine-messages.case.js'
import { Responses } from './engine-responses.case.js'
import type { Values } from './engine-values.case.js'
import type { Random, Tree } from './json-tree.case.js'
import { changed, Fields, text } from './json-tree.case.js'

const makers: Readonly<Record<Route, new (random: Random) => Values>> = {
  chat: Chats,
  completions: Completions,
  responses: Responses,
  messages: Messages,
}

/** A request of this route; one in four has a few of its values left out or replaced by what does not belong there. */
export function requestAtRandom(route: Route, model: string, random: Random): Fields {
  let request: Tree = new Fields(new makers[route](random).request())
  if (random(4) === 0) for (let left = 1 + random(2); left > 0; left--) request = changed(request, random)
  return new Fields([['model', text(model)], ...(request instanceof Fields ? request.entries : [])])
}
