/** Every group of options. A room that needs options adds a file beside this one and a line here. */
import { routingGroup } from './routing.js'
import { serveGroup } from './serve.js'
import { serverGroup } from './server.js'

export const groups = { routing: routingGroup, server: serverGroup, serve: serveGroup } as const
