/** Engines that a client cannot tell from real ones, and traces replayed through a fleet of them on a virtual clock. */
export {
  CorePolicy,
  dynamoEngine,
  loadTokenizer,
  parseFaults,
  parseMooncake,
  parseStepTable,
  replay,
  roundRobin,
  startSimEngine,
  timingProfiles,
} from './sim/index.js'
export type {
  CorePolicyOptions,
  EngineOptions,
  Fault,
  Fleet,
  ReplayOptions,
  ReplayPolicy,
  ReplayReport,
  ReplayRequest,
  SimEngine,
  SimEngineOptions,
  SimTokenizer,
  TimingProfile,
  TraceRequest,
} from './sim/index.js'
