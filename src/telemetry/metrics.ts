/** The catalogue brought to life: one family per row, typed by the row, in a registry of their own. */
import type { MetricKey, MetricRow } from './catalogue.js'
import { catalogue, overheadBuckets10 } from './catalogue.js'
import { CounterFamily, GaugeFamily, HistogramFamily } from './families.js'
import type { MetricBuckets } from './operator-names.js'
import { frontendPrefix, withPrefix } from './operator-names.js'
import type { AnyFamily } from './registry.js'
import { Registry } from './registry.js'
import { StateFamily } from './states.js'

interface FamilyOf {
  readonly counter: CounterFamily
  readonly gauge: GaugeFamily
  readonly histogram: HistogramFamily
}

type FamilyFor<Row extends MetricRow> = Row extends { readonly states: object } ? StateFamily : FamilyOf[Row['type']]

export type Metrics = { readonly [Key in MetricKey]: FamilyFor<(typeof catalogue)[Key]> } & {
  readonly registry: Registry
  readonly generation: '1.0' | '1.2'
}

export interface MetricsOptions {
  /** `1.0` gives the overhead histograms the buckets of the first generation. */
  readonly metricsCompat?: '1.0' | '1.2'
  /** In place of `dynamo_frontend` in the names of the front door's families. */
  readonly prefix?: string
  /** Bounds in place of the catalogue's. */
  readonly buckets?: MetricBuckets
  /** Limit of series per family. */
  readonly seriesMax?: number
}

/** Families without labels exist from the start, so that they scrape as zero before anything happened. */
export function createMetrics(options: MetricsOptions = {}): Metrics {
  const registry = new Registry()
  const families = Object.entries(catalogue).map(([key, row]) => {
    const family = registry.register(createFamily(key as MetricKey, row, options))
    if (row.labels.length === 0) family.with()
    return [key, family] as const
  })
  const generation = options.metricsCompat ?? '1.2'
  const metrics = { ...Object.fromEntries(families), registry, generation } as Metrics
  registry.onCollect(() => metrics.droppedSeries.set({}, registry.droppedSeries))
  return metrics
}

function createFamily(key: MetricKey, row: MetricRow, options: MetricsOptions): AnyFamily {
  const { seriesMax, metricsCompat, prefix = frontendPrefix, buckets } = options
  const shared = {
    name: withPrefix(row.name, prefix),
    help: row.help,
    labels: row.labels,
    ...(seriesMax === undefined ? {} : { seriesMax }),
  }
  switch (row.type) {
    case 'counter':
      return new CounterFamily(shared)
    case 'gauge':
      return row.states ? new StateFamily({ ...shared, states: row.states }) : new GaugeFamily(shared)
    case 'histogram':
      return new HistogramFamily({
        ...shared,
        buckets:
          metricsCompat === '1.0' && row.name.startsWith('dynamo_router_overhead_')
            ? overheadBuckets10
            : (buckets?.[key] ?? row.buckets ?? []),
      })
  }
}
