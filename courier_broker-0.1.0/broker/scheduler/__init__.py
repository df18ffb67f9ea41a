"""Events that are put off until their time.

times      when: a delay, or a moment
in_memory  what is put off in a broker without a journal
alarm      Alarm: the one timer
recurrence  when something happens that recurs
recurring   all that recurs, and the run that follows one
tally      what the scheduler counts
scheduler  Scheduler: put off, cancel, and let go through the gate when it is time
"""
