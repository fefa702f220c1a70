"""A guardrail for the proxy of LiteLLM, in its process.

In the proxy's configuration::

    guardrails:
      - guardrail_name: turnwise
        litellm_params:
          guardrail: turnwise.integrations.litellm.TurnwiseGuardrail
          mode: [pre_call, post_call]
          default_on: true
          turnwise_preset: customer_service
"""

from turnwise.integrations.litellm.guardrail import TurnwiseGuardrail

__all__ = ["TurnwiseGuardrail"]
