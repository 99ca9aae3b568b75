/** The engine's exact tokens for a request, at a fraction of the usual cost. */
export { plainRules } from './chat/build-prompt.js'
export type { PromptRules } from './chat/build-prompt.js'
export { convertMessages } from './chat/convert-messages.js'
export { convertResponses } from './chat/convert-responses.js'
export type { EngineRules, TemplateHabits } from './chat/converted.js'
export { whyThoughtsUnknown } from './chat/reasoning-parsers.js'
export { LoadOnlyError, truncate, truncationOf } from './chat/request.js'
export type { Body, Dialect, LoadOnlyReason, Route } from './chat/request.js'
export { Encoder } from './encode/encoder.js'
export type { EncoderCounts, EncoderOptions } from './encode/encoder.js'
export type { CacheCounts } from './encode/ids-cache.js'
export { FolderTokenizer } from './model/folder-tokenizer.js'
export type { ModelCounts, TokenizeOptions } from './model/model-tokens.js'
export { unwritten } from './next-turn.js'
export type { PoolCounts, PoolOptions } from './pool/pool.js'
export type { HubOptions } from './sources/download.js'
export type { EngineEndpoint } from './sources/engine-tokens.js'
export { hasTokenizer } from './sources/find-folder.js'
export type { LearnAgainOptions } from './sources/learn-again.js'
export type { SourceName } from './sources/source.js'
export type { LoadOnly } from './load-only.js'
export { TokenService } from './token-service.js'
export type {
  ModelSources,
  ModelStatus,
  PromptCounts,
  ServiceCounts,
  ServiceOptions,
} from './token-service.js'
export { Tokens } from './tokens.js'
export type { Exactness, TokensSource, TokensTook } from './tokens.js'
export type { PrefixCounts } from './template/rendered-prefixes.js'
export type { Value as TemplateValue } from './template/values.js'
export { buildVocabulary } from './vocabulary/build-vocabulary.js'
export { planEncoder } from './vocabulary/plan.js'
export type { EncoderPlan, LibraryPlan, PlanOptions } from './vocabulary/plan.js'
export { whatIsWrongWith } from './vocabulary/tokenizer-file.js'
export type { TokenizerConfigFile, TokenizerFile } from './vocabulary/tokenizer-file.js'
