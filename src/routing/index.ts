/** The router alive: what the server asks, and the router that answers. */
export type { PromptHashes, RankLoad, RouteAnswer, RouterPort, RouteRequest } from './router-port.js'
