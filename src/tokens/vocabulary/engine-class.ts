/**
 * Which class do engines take for a model's tokenizer? `AutoTokenizer` of transformers 5.19.0 goes by what `tokenizer_config.json` calls it,
 * and by the model's type, which may know better. Some classes read `tokenizer.json` as it is, others build a tokenizer of their own
 * from its vocabulary (`built-classes.ts`). All that is said here was tried out, for every type that it knows (`engine-class.test.ts`).
 */
import type { BuiltClass } from './built-classes.js'
import { isBuiltClass } from './built-classes.js'
import type { TokenizerConfigFile } from './tokenizer-file.js'

export interface EngineClass {
  /** `file`: the file is read as it is. */
  readonly name: BuiltClass | 'file'
  /** Why engines may have another one. */
  readonly unsure?: string
}

const list = (names: string): ReadonlySet<string> => new Set(names.trim().split(/\s+/))

/** Whatever the class is called, the file is read. */
const typesOfFiles = list(`
  EvollaModel arctic aria bigbird_pegasus camembertv2-base canary chameleon chatlm cohere_asr deepseek_ocr deepseek_ocr2 deepseek_v2
  deepseek_v3 deepseek_v32 deepseek_v4 deepseek_vl deepseek_vl_hybrid deepseek_vl_v2 ernie4_5 ernie4_5_moe flex_olmo fuyu glm glm4 glm4_moe
  glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2 gpt_bigcode granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat
  hyperclovax hyperclovax_vlm internlm2 jamba janus kimi_k25 kimi_linear kosmos-2 llava llava_next mimo_v2_flash minicpm3 minicpmv
  minicpmv4_6 minicpmv4_7 minimax_m2 ministral ministral3 mistral mistral3 mixtral modernbert modernbert-decoder molmo molmo2 nemotron nvfp4
  nystromformer olmo2 olmo3 olmo_hybrid opencua openvla paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral smolvlm
  stablelm step3_vl step3p5 umt5 vipllava voxtral voxtral_realtime xlm-roberta-xl`)

/** Whatever the class is called, it is this one. */
const classOfType: Readonly<Record<string, BuiltClass>> = {
  hyperclovax_vision_v2: 'GPT2',
  qwen2: 'Qwen2',
  qwen3_5: 'Qwen3_5',
  qwen3_5_moe: 'Qwen3_5',
  qwen3_5_moe_text: 'Qwen3_5',
  qwen4_exp: 'Qwen3_5',
}

/** Where no class is named. */
const typesOfClass: readonly (readonly [BuiltClass, ReadonlySet<string>])[] = [
  ['Cohere', list('aya_vision cohere cohere2')],
  [
    'GPT2',
    list(`blip-2 codegen dbrx emu3 gpt-sw3 gpt2 gpt_neo gptj instructblip instructblipvideo jais2 opt phi starcoder2`),
  ],
  ['GPTNeoX', list('falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm')],
  [
    'Gemma',
    list(
      `diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma shieldgemma2 t5gemma zaya`,
    ),
  ],
  ['Llama', list('idefics idefics2')],
  [
    'Qwen2',
    list(`
      audioflamingo3 colqwen2 cosmos3_omni fun_asr_nano hunyuan_vl internvl lighton_ocr ovis2 qianfan_ocr qwen2_5_omni qwen2_5_vl qwen2_audio
      qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl qwen3_vl_moe vibevoice`),
  ],
  ['Qwen3_5', list('qwen3_5_text')],
]

/** Classes of transformers that build a tokenizer, too, and that nobody compared: models that write texts seldom have them. */
const otherClasses = list(`
  Albert Bart Barthez Bartpho Bert BertGeneration BertJapanese Bertweet BigBird BioGpt Blenderbot BlenderbotSmall ByT5 CLIP CTRL Camembert
  Canine Clvp Cpm CpmAnt DPRContextEncoder DPRQuestionEncoder DPRReader Deberta DebertaV2 Dia DistilBert Esm Esmc FSMT Flaubert Funnel GPTNeoXJapanese
  GPTSw3 Herbert Lasr LayoutLMv2 LayoutLMv3 LayoutXLM Luke M2M100 MBart MBart50 MLuke MPNet Marian MarkupLM Mgpstr MobileBert MyT5 Nllb Nougat
  OpenAIGPT PLBart Pegasus Perceiver Phobert ProphetNet Rag Reformer RemBert RoCBert RoFormer Roberta SeamlessM4T Siglip Siglip2 Speech2Text
  SpeechT5 Splinter SqueezeBert T5 Tapas Tipsv2 Udop VideoPrism Vits Wav2Vec2CTC Wav2Vec2PhonemeCTC Whisper XGLM XLM XLMRoberta XLNet`)

/** `modelConfig`: the model's `config.json`, where there is one. */
export function engineClassOf(config: TokenizerConfigFile, modelConfig: unknown): EngineClass {
  const said = textIn(config, 'tokenizer_class') ?? textIn(modelConfig, 'tokenizer_class')
  const type = typeOf(modelConfig)
  if (hasCode(config)) {
    // Whether it is run is a switch of the engine's, which nobody asks.
    return { ...namedClass(said), unsure: 'its tokenizer has code of its own (auto_map)' }
  }
  const insisted = type === undefined ? undefined : ofType(type)
  if (insisted !== undefined) return { name: insisted }
  if (said !== undefined) return namedClass(said)
  const usual = typesOfClass.find(([, types]) => type !== undefined && types.has(type))
  return { name: usual?.[0] ?? 'file' }
}

/** What `config.json` says that the model is. */
export function typeOf(modelConfig: unknown): string | undefined {
  return textIn(modelConfig, 'model_type')
}

function ofType(type: string): EngineClass['name'] | undefined {
  if (typesOfFiles.has(type)) return 'file'
  return Object.hasOwn(classOfType, type) ? classOfType[type] : undefined
}

/** What is no class of transformers is nothing but a file to it. */
function namedClass(said = ''): EngineClass {
  const name = said.replace(/Fast$/, '').replace(/Tokenizer$/, '')
  if (name === 'CodeLlama') return { name, unsure: 'a text of it with a gap to fill (<FILL_ME>) is put together anew' }
  if (isBuiltClass(name)) return { name }
  return otherClasses.has(name)
    ? { name: 'file', unsure: `nobody compared what engines build of a ${said}` }
    : { name: 'file' }
}

function hasCode({ auto_map: map }: TokenizerConfigFile): boolean {
  if (Array.isArray(map)) return true
  const own = typeof map === 'object' && map !== null ? (map as { AutoTokenizer?: unknown }).AutoTokenizer : undefined
  return own !== undefined && own !== null
}

function textIn(value: unknown, name: string): string | undefined {
  const text: unknown = (value as Readonly<Record<string, unknown>> | null | undefined)?.[name]
  return typeof text === 'string' && text !== '' ? text : undefined
}
