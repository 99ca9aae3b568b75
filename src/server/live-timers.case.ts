/** Counts the timers that the house has set and not yet cleared, those included that do not keep the process alive. */

interface Handle {
  readonly _destroyed?: boolean
}

const handles = new Map<Handle, string>()

for (const name of ['setTimeout', 'setInterval'] as const) {
  const real = globalThis[name]
  const tracked = (...args: Parameters<typeof real>): NodeJS.Timeout => {
    const handle = (real as (...all: unknown[]) => NodeJS.Timeout)(...args)
    const stack = new Error(name).stack ?? ''
    const caller = stack.split('\n')[2] ?? ''
    if (caller.includes('/src/') && !/\/node_modules\/|\.case\.|\.test\./.test(caller))
      handles.set(handle as Handle, caller)
    return handle
  }
  Object.assign(globalThis, { [name]: Object.assign(tracked, real) })
}

/** All rooms that a router is made of; simulated engines, which may live on, are not. */
export const roomsOfRouter = ['cli', 'config', 'core', 'engines', 'events', 'routing', 'server', 'telemetry', 'tokens']
export const allRooms = [...roomsOfRouter, 'sim']

/** Where each live timer of these rooms was set. */
export function liveTimers(rooms: readonly string[] = ['server']): readonly string[] {
  for (const handle of handles.keys()) if (handle._destroyed) handles.delete(handle)
  return [...handles.values()].filter((caller) => rooms.some((room) => caller.includes(`/src/${room}/`)))
}
