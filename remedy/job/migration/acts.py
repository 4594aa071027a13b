"""Acts on the pods of a node that is drained. Pure."""

from remedy.job.model import StepAct


class PodAct(StepAct):
    """Acts of step `migrate`. UNSURGE also undoes a surge when the job ends."""

    EVICT = "Evict"
    DELETE_PODS = "DeletePods"
    SURGE = "Surge"
    UNSURGE = "Unsurge"
    CHECKPOINT = "Checkpoint"
