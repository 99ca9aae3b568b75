/** Reading a request's JSON fields without trusting them. */
import type { Json } from './exchange.js'

export function textOf(body: Json, key: string): string | undefined {
  const value = body[key]
  return typeof value === 'string' ? value : undefined
}

export function numberOf(body: Json, key: string): number | undefined {
  const value = body[key]
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined
}

export function isSet(body: Json, key: string): boolean {
  return body[key] === true
}

export function objectOf(body: Json, key: string): Json | undefined {
  const value = body[key]
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : undefined
}

export function stopsOf(body: Json): string[] {
  const stop = body['stop']
  if (typeof stop === 'string') return [stop]
  return Array.isArray(stop) ? stop.filter((it) => typeof it === 'string') : []
}

export function isTokens(value: unknown): value is number[] {
  return Array.isArray(value) && value.length > 0 && value.every((it) => Number.isInteger(it) && it >= 0)
}
