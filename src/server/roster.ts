/**
 * Who is here, where thousands come and go each second. Not a Set: V8 links the table that a Set leaves behind when it is
 * full of gaps to the next one, and one such table that has grown old keeps all that follow, with whoever stood in them,
 * until everything is collected. Every request outlived its young years that way: 8 KB of it were moved twice and found
 * dead by a full collection only (docs/decisions/0135-sets-keep-the-dead.md).
 *
 *   members  [ a, b, c, d ]   each knows its own place; who leaves is replaced by the last
 */
export class Roster<Key extends string, Member extends Record<Key, number>> {
  readonly #members: Member[] = []
  readonly #key: Key

  /** `key`: where a member keeps its place; -1 there means that it is not in the roster. */
  constructor(key: Key) {
    this.#key = key
  }

  get size(): number {
    return this.#members.length
  }

  has(member: Member): boolean {
    return this.#members[member[this.#key]] === member
  }

  add(member: Member): void {
    if (this.has(member)) return
    this.#seat(member, this.#members.length)
    this.#members.push(member)
  }

  delete(member: Member): boolean {
    if (!this.has(member)) return false
    const place: number = member[this.#key]
    const last = this.#members.pop()!
    this.#seat(member, -1)
    if (last === member) return true
    this.#members[place] = last
    this.#seat(last, place)
    return true
  }

  /** Everybody who is here now, but for those who leave before it is their turn. In no order. */
  *[Symbol.iterator](): Generator<Member> {
    for (const member of this.#members.slice()) if (this.has(member)) yield member
  }

  #seat(member: Member, place: number): void {
    ;(member as Record<Key, number>)[this.#key] = place
  }
}
