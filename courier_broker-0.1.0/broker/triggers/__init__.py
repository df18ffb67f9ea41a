"""Rules that run when an event is inserted (003 §8): notify, route, enrich.

rule        one rule, made ready: what it matches, and why it does not
fields      the fields of one event, as rules see them
render      templates, with the fields put in
splice      members of a JSON object changed in its bytes, without decoding the rest
actions     what notify, route and enrich make of an event
cooldown    which rules rest
tally       what a rule has done, in figures
expansion   the events of one submission with all that rules make of them
rule_set    the rules, from the configuration and over the API, and which of them an event is for
engine      rules and submissions together: what the gate calls
store       rules that came over the API, kept in the journal

    gate ──► engine.expand ──► the same submission, with effects behind their causes ──► journal
                 ▲                                                                          │
                 └───────────────── settled: counted, cooldowns kept or given back ◄────────┘
"""
