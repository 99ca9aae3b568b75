/** How often requests are read without having V8 keep anything of them, brought into the metrics before each scrape. */
import type { Metrics } from '../../telemetry/index.js'
import { KeptTable } from '../kept-table.js'

/** Shows what the process does from now on, until the returned function is called. */
export function observeKept(
  { registry, unkeptRequests }: Metrics,
  { unkept }: KeptTable = KeptTable.ofProcess,
): () => void {
  let shown = { ...unkept }
  return registry.onCollect(() => {
    unkeptRequests.inc({ part: 'head' }, unkept.head - shown.head)
    unkeptRequests.inc({ part: 'body' }, unkept.body - shown.body)
    shown = { ...unkept }
  })
}
