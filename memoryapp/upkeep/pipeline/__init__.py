"""The stages of background work, one module each: what the worker does, and what the page *Pipeline* shows of it.

A stage is a value (``Stage``): its words, what waits, what failed and what was done in each hour. Its sweeps are in the
same module, each with the interval at which beat sends it. Everything is read from the rows of the work itself. The
room imports the rooms that do the work, and is imported by the tasks and by pages alone.
"""

from memoryapp.upkeep.pipeline import archive, artifacts, consolidate, embed, erase, extract, imports, recalls
from memoryapp.upkeep.pipeline.stage import Stage

# In the order of the page.
STAGES: dict[str, Stage] = {
    module.STAGE.name: module.STAGE
    for module in (imports, archive, embed, consolidate, extract, artifacts, recalls, erase)
}
