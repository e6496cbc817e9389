/** Places that are kept although nothing is in them, before those that are in use move together. */
const EMPTY_MAX = 64;

/**
 * Things in the order in which they came, that come and go all the time, and mostly go in that order. Not a Set: when a Set
 * needs a new table, the one before keeps pointing to it, and to what it held. Where one of these is old, all that came
 * after it stays until the next full collection. For the same reason what is left moves together within its array.
 */
export class Bag<T> {
  readonly #places: (T | undefined)[] = [];
  /** In none of the places before this one is anything. */
  #first = 0;
  #count = 0;

  add(item: T): void {
    this.#places.push(item);
    this.#count += 1;
  }

  /** Takes it out, if it is there. */
  delete(item: T): void {
    const places = this.#places;
    const place = places.indexOf(item, this.#first);
    if (place < 0) return;
    places[place] = undefined;
    if (place === this.#first) this.#first += 1;
    this.#count -= 1;
    if (places.length > 2 * this.#count + EMPTY_MAX) this.#moveTogether();
  }

  /** What is in it now, also if some of it goes while this is looked through. */
  all(): readonly T[] {
    return this.#places.filter((item) => item !== undefined);
  }

  #moveTogether(): void {
    const places = this.#places;
    let next = 0;
    for (let place = this.#first; place < places.length; place += 1) {
      const item = places[place];
      if (item !== undefined) places[next++] = item;
    }
    places.length = next;
    this.#first = 0;
  }
}
