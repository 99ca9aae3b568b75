/**
 * The order of the test files: project by project, and what takes long before what does not, so that a run ends with many small files
 * on every core and never with one long file on one. Without a run before, vitest knows of a file only how big it is.
 */
import type { TestSpecification } from 'vitest/node'
import { BaseSequencer } from 'vitest/node'
import { longestFiles } from './longest-files.js'

const places = new Map(longestFiles.map((file, place) => [file, place]))

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const placeOf = (file: TestSpecification): number =>
      places.get(file.moduleId.slice(this.ctx.config.root.length + 1)) ?? places.size
    // Files of one project stay together: vitest ends a thread that others could share as soon as the next file is not for it.
    const projects = [...new Set(sorted.map((file) => file.project.name))]
    return projects.flatMap((name) =>
      sorted.filter((file) => file.project.name === name).sort((a, b) => placeOf(a) - placeOf(b)),
    )
  }
}
