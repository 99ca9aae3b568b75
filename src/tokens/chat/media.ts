/**
 * Images, audio and video in a request. How many tokens a picture takes and which hash it has is decided by the engine's own
 * processor, so from outside such a prompt has no known tokens, whatever tokenizer is at hand. Only a vLLM server that
 * renders for us can say both (`sources/media-features.ts`).
 */
import type { Value } from '../template/values.js'
import { typeName } from '../template/values.js'
import type { Body, LoadOnlyReason } from './request.js'
import { LoadOnlyError } from './request.js'

export type MediaKind = 'image' | 'audio' | 'video' | 'other'

/** A map: to be asked for a type, an object would have V8 keep it (docs/decisions/0273). */
const kinds: ReadonlyMap<string, MediaKind> = new Map(
  Object.entries<MediaKind>({
    image: 'image',
    image_url: 'image',
    image_pil: 'image',
    image_embeds: 'image',
    input_image: 'image',
    audio: 'audio',
    audio_url: 'audio',
    audio_embeds: 'audio',
    input_audio: 'audio',
    video: 'video',
    video_url: 'video',
    input_video: 'video',
  }),
)

const why: Readonly<Record<MediaKind, string>> = {
  image: "an image takes as many tokens as the engine's processor makes of its size, and is hashed from its pixels",
  audio: "audio takes as many tokens as the engine's processor makes of its length, and is hashed from its samples",
  video: 'a video takes as many tokens as frames are sampled by the engine, and is hashed from those',
  other: 'what the engine makes of it is not known',
}

/** Why a part of this type leaves the tokens unknown. */
export function mediaError(type: Value): LoadOnlyError {
  const name = typeof type === 'string' ? type : typeName(type) // to spell an object, one of its own fields might be called
  const kind = kinds.get(name) ?? 'other'
  return new LoadOnlyError(`media-${kind}`, `${name}: ${why[kind]}`)
}

export function isMediaReason(reason: LoadOnlyReason): boolean {
  return reason.startsWith('media-')
}

const besideIds: Readonly<Record<string, string>> = {
  image_data: 'image',
  audio_data: 'audio',
  video_data: 'video',
  multi_modal_data: 'media',
}

/** Token ids that come with media are not those that the engine computes: it puts values of its own in their place. */
export function refuseMediaBesideIds(body: Body): void {
  for (const [field, type] of Object.entries(besideIds)) {
    if (body[field] !== undefined && body[field] !== null) throw mediaError(type)
  }
}
